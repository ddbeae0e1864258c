"""Query parameters that name a click, a campaign or a visit and never the page: they are no part of a key.

Collected on 2026-11-29 from the lists by which browsers clean links (Firefox, strip on share; Brave, query filter), a
public registry (mpchadwick/tracking-query-params-registry) and the services' own documentation. Only names that mean
one thing wherever they occur are in it: a name that a site may have given to something of its own (`ref`, `source`,
`cid`, `s`, `id`, `trk`) would merge pages that differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import unquote


class Names:
    """A set of parameter names. One with `*` at its end stands for all that begin so. Case does not count, nor do
    escapes."""

    def __init__(self, names: Iterable[str]) -> None:
        plain = [unquote(name).lower() for name in names]
        self._names = frozenset(name for name in plain if not name.endswith("*"))
        self._prefixes = tuple(name[:-1] for name in plain if name.endswith("*"))

    def __contains__(self, name: str) -> bool:
        plain = (unquote(name) if "%" in name else name).lower()
        return plain in self._names or plain.startswith(self._prefixes)


# Google Analytics and Ads, and what copies their names
_ANALYTICS = "utm_* _ga _gac _gl gclid gclsrc dclid gbraid wbraid gad_source gad_campaignid srsltid hsa_*"

# Matomo, under all its names
_MATOMO = "matomo mtm piwik pk"
_CAMPAIGN = "campaign cid content group keyword kwd medium placement source"

# Meta, Microsoft, Yandex, Yahoo; X, TikTok, LinkedIn, Pinterest, Snapchat, Reddit, Nextdoor, Quora, Taboola, Outbrain,
# Branch
_NETWORKS = """
fbclid fb_action_ids fb_action_types igshid igsh mibextid msclkid yclid ysclid ymclid syclid _openstat guce_referrer
guce_referrer_sig guccounter twclid ttclid li_fat_id epik sccid rdt_cid ndclid qclid tblci dicbo _branch_match_id
_branch_referrer
"""

# HubSpot, Mailchimp, Marketo, Vero, Klaviyo, Omeda, Eloqua, Bronto, Listrak, Springbot, Blueshift, Salesforce, ...
_MAIL = """
_hsenc _hsmi __hssc __hstc __hsfp hsctatracking mc_cid mc_eid mkt_tok vero_id vero_conv _ke _kx oly_anon_id oly_enc_id
elqtrack elqtrackid _bta_tid _bta_c trk_contact trk_msg trk_module trk_sid redirect_log_mongo_id redirect_mongo_id
sb_referer_host bsft_clkid bsft_uid sfmc_id sfmc_activityid ml_subscriber ml_subscriber_hash ss_email_id et_rid _bhlid
at_recipient_id at_recipient_list
"""

# Adobe, Wicked Reports, Impact, Rakuten, CJ, AT Internet, Mapp, comScore
_AFFILIATES = """
ef_id s_kwcid rb_clickid wickedid irclickid irgwc ranmid raneaid ransiteid cjevent xtor wt_zmc unicorn_click_id vgo_ee
ns_mchannel ns_campaign ns_linkname ns_fee
"""

TRACKING = Names(
    [
        *" ".join((_ANALYTICS, _NETWORKS, _MAIL, _AFFILIATES)).split(),
        *(f"{name}_{what}" for name in _MATOMO.split() for what in _CAMPAIGN.split()),
    ]
)
"""Tracking parameters, whatever the site."""

SESSION = re.compile(
    r"""(?: jsessionid | phpsessid | aspsessionid[^=]* | zenid | oscsid )=   # by their name
      | (?: sid | session_?id )=(?= [a-z]* [0-9] )[0-9a-z]{24,}\Z            # and by their value""",
    re.VERBOSE | re.IGNORECASE,
)
"""A piece of a query that names a session."""

SESSION_NAME = re.compile(r"jsessionid|phpsessid|aspsessionid.*|zenid|oscsid|sid|session_?id", re.IGNORECASE)
"""The name of a parameter that SESSION may match."""

SESSION_PAIR = frozenset({"cfid", "cftoken"})
"""A session of two parameters (ColdFusion), which mean something else when alone."""

# What is left in front of it must not be a dot segment.
PATH_SESSION = re.compile(r"(?<!/\.)(?<!/\.\.);jsessionid=[0-9a-z.!~:_+*-]*(?=[;/]|\Z)", re.IGNORECASE | re.ASCII)
"""A session as a parameter of the last or any path segment (servlets)."""
