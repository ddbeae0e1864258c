"""Words, sentences, paragraphs and titles in the proportions of prose."""

from __future__ import annotations

import bisect
import random
from itertools import accumulate

_SYLLABLES = (
    "ba be bi co da de di fo ga ge ho in jo ka la le li lo ma me mi na ne no or pa pe ra re ri ro sa se si so ta te ti "
    "to tra un va ve vi wa ze"
)
_COMMON = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they which "
    "one you were her all she there would their we him been has when who will more no if out so said what up its about "
    "into than them can only other new some could time these two may then do first any my now such like our over man "
    "me even most made after"
)


class Text:
    """A vocabulary with Zipf's frequencies, and stocks of paragraphs, titles and sentences to draw from."""

    def __init__(self, rng: random.Random) -> None:
        syllables = _SYLLABLES.split()
        made = ("".join(rng.choice(syllables) for _ in range(rng.randint(2, 4))) for _ in range(6000))
        self.words = [*_COMMON.split(), *made]
        self._weights = list(accumulate(1.0 / (rank + 3) ** 0.95 for rank in range(len(self.words))))
        self.paragraphs = [self._paragraph(rng) for _ in range(4000)]
        self.titles = [" ".join(self.word(rng) for _ in range(rng.randint(3, 8))).capitalize() for _ in range(4000)]

    def word(self, rng: random.Random) -> str:
        return self.words[bisect.bisect(self._weights, rng.random() * self._weights[-1])]

    def sentence(self, rng: random.Random) -> str:
        words = [self.word(rng) for _ in range(rng.randint(6, 22))]
        words[0] = words[0].capitalize()
        if rng.random() < 0.3:
            words[len(words) // 2] += ","
        return " ".join(words) + rng.choice("....?!")

    def title(self, rng: random.Random) -> str:
        return self.titles[rng.randrange(len(self.titles))]

    def paragraph(self, rng: random.Random) -> str:
        return self.paragraphs[rng.randrange(len(self.paragraphs))]

    def _paragraph(self, rng: random.Random) -> str:
        sentences = []
        for _ in range(rng.randint(2, 6)):
            text = self.sentence(rng)
            stop = text[-1]
            kind = rng.random()
            if kind < 0.12:
                text = text.replace(" ", " <em>", 1)[:-1] + "</em>" + stop
            elif kind < 0.22:
                text = text.replace(" ", ' <span class="hl">', 1)[:-1] + "</span>" + stop
            elif kind < 0.28:
                text = text.replace(" ", " <strong>", 1)[:-1] + "</strong>" + stop
            elif kind < 0.34:
                text = text[:-1] + " &amp; " + self.word(rng) + " &mdash; caf&eacute;" + stop
            sentences.append(text)
        return " ".join(sentences)
