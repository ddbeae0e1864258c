-- Slowest hosts
-- The fifty hosts that took longest to answer, by the median; p95 is the time within which 95 of 100 answers came.
-- In milliseconds, from the request to the end of the body.
WITH answer AS (
    SELECT
        host,
        elapsed_ms,
        row_number() OVER (PARTITION BY host ORDER BY elapsed_ms) AS place,
        count(*) OVER (PARTITION BY host) AS answers
    FROM pages
    WHERE crawl_id = ? AND elapsed_ms IS NOT NULL
)
SELECT
    host,
    max(answers) AS answers,
    max(CASE WHEN (place - 1) * 100 < answers * 50 THEN elapsed_ms END) AS median_ms,
    max(CASE WHEN (place - 1) * 100 < answers * 95 THEN elapsed_ms END) AS p95_ms,
    max(elapsed_ms) AS max_ms
FROM answer
GROUP BY host
ORDER BY median_ms DESC, p95_ms DESC, host
LIMIT 50
