-- Duplicates
-- Pages whose content was had before under another URL: the URL that was fetched first, how many others have the same
-- content byte by byte, how many bytes these are, and one of them.
SELECT
    duplicate_of AS original,
    count(*) AS copies,
    sum(bytes) AS copied_bytes,
    min(url) AS example
FROM pages
WHERE crawl_id = ? AND duplicate_of IS NOT NULL
GROUP BY duplicate_of
ORDER BY copied_bytes DESC, original
