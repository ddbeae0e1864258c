-- Broken links
-- URLs that were answered with an error or given up, each with the page on which it was found first.
WITH page AS (
    SELECT url, status, outcome, reason, title, parent_url
    FROM pages
    WHERE crawl_id = ?
)
SELECT
    broken.status,
    broken.reason,
    broken.url,
    broken.parent_url AS found_on,
    parent.title AS found_on_title
FROM page AS broken
LEFT JOIN page AS parent ON parent.url = broken.parent_url
WHERE broken.outcome = 'dead' OR (broken.outcome = 'done' AND broken.status >= 400)
ORDER BY found_on, broken.url
