-- Status by host
-- For each host: how many URLs were answered and how, how many were skipped or given up, and the bytes of its pages.
WITH page AS (
    SELECT host, outcome, status, bytes
    FROM pages
    WHERE crawl_id = ?
)
SELECT
    host,
    count(*) AS urls,
    count(CASE WHEN outcome = 'done' AND status < 300 THEN 1 END) AS ok,
    count(CASE WHEN outcome = 'done' AND status = 304 THEN 1 END) AS unchanged,
    count(CASE WHEN outcome = 'done' AND status BETWEEN 300 AND 399 AND status <> 304 THEN 1 END) AS redirects,
    count(CASE WHEN outcome = 'done' AND status >= 400 THEN 1 END) AS errors,
    count(CASE WHEN outcome = 'skipped' THEN 1 END) AS skipped,
    count(CASE WHEN outcome = 'dead' THEN 1 END) AS dead,
    coalesce(sum(CASE WHEN outcome = 'done' THEN bytes END), 0) AS bytes
FROM page
GROUP BY host
ORDER BY urls DESC, host
