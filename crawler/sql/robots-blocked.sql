-- Blocked by robots.txt
-- For each host that forbids something: how many of its URLs that the crawl found its robots.txt forbids, and their share.
SELECT
    host,
    count(*) AS urls,
    count(CASE WHEN reason = 'robots' THEN 1 END) AS blocked,
    round(1E2 * count(CASE WHEN reason = 'robots' THEN 1 END) / count(*), 1) AS percent
FROM pages
WHERE crawl_id = ?
GROUP BY host
HAVING count(CASE WHEN reason = 'robots' THEN 1 END) > 0
ORDER BY blocked DESC, host
