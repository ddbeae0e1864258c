-- Redirect chains
-- Every URL that redirects: over how many hops, where it ends and how. Ends: the outcome there; `unknown` when no row of
-- the crawl spells the URL so; `loop` when it still redirects after nine hops, which is a loop or as good as one.
WITH RECURSIVE
page (spelling, url, parent_url, outcome, status, target) AS (
    -- A target may be spelled as the URL of its row or as its key. An answer that was followed at once is no redirect.
    SELECT spelling, url, parent_url, outcome, status, CASE WHEN status BETWEEN 300 AND 399 THEN redirect_to END
    FROM pages
    CROSS JOIN UNNEST(ARRAY[url, CASE WHEN url_key <> url THEN url_key END]) AS spelled (spelling)
    WHERE crawl_id = ? AND spelling IS NOT NULL
),
chain (url, parent_url, hops, target) AS (
    SELECT url, parent_url, 1, target
    FROM page
    WHERE spelling = url AND target IS NOT NULL
    UNION ALL
    -- Athena gives up a recursion that is not over after ten steps.
    SELECT chain.url, chain.parent_url, chain.hops + 1, page.target
    FROM chain
    JOIN page ON page.spelling = chain.target
    WHERE chain.hops < 9 AND page.target IS NOT NULL
),
followed (url, parent_url, hops, target) AS (
    SELECT url, parent_url, max(hops), max_by(target, hops)
    FROM chain
    GROUP BY url, parent_url
)
SELECT
    followed.hops,
    followed.url,
    followed.target AS ends_at,
    CASE
        WHEN page.url IS NULL THEN 'unknown'
        WHEN page.target IS NOT NULL THEN 'loop'
        ELSE page.outcome
    END AS ends,
    page.status,
    followed.parent_url AS found_on
FROM followed
LEFT JOIN page ON page.spelling = followed.target
ORDER BY followed.hops DESC, followed.url
