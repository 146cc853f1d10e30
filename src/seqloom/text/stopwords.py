"""Words that carry grammar rather than meaning, and marks that are no words at all."""

from __future__ import annotations

import regex

from seqloom.text.special import SPECIALS, UNK

ENGLISH = """
    a an the this that these those such same other another each every either neither both all any some no none
    few many much more most less least several own one i me my mine myself we us our ours ourselves you your
    yours yourself yourselves he him his himself she her hers herself it its itself they them their theirs
    themselves who whom whose which what whoever whatever somebody someone something anybody anyone anything
    nobody nothing everybody everyone everything thou thee thy be am is are was were been being have has had
    having do does did doing done will would shall should can could may might must ought let i'm you're he's
    she's it's we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd i'll you'll he'll she'll
    we'll they'll isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't shan't
    shouldn't can't cannot couldn't mustn't needn't let's that's there's here's what's who's where's how's
    o'clock about above across after against along amid among around as at before behind below beneath beside
    besides between beyond by despite down during except for from in inside into like near of off on onto out
    outside over past per since than through throughout till to toward towards under underneath until unto up
    upon via with within without and but or nor so yet if unless because although though while whereas whether
    lest once when whenever where wherever why how then thus hence therefore however not only just even also too
    very quite rather almost again ever never always already still now here there perhaps s t d m ll re ve
"""

CHINESE = """
    的 地 得 了 着 过 们 之 所 者 吗 呢 吧 啊 呀 嘛 么 哦 啦 而 且 与 和 及 或 但 却 则 因 为 故 如 若 虽 即 既
    乃 以 于 在 从 自 由 向 往 到 至 对 把 被 让 给 跟 同 比 将 使 是 有 无 没 不 未 非 也 都 又 还 再 就 才 只
    很 太 更 最 已 曾 正 便 并 会 能 可 要 应 我 你 您 他 她 它 咱 吾 汝 其 此 彼 这 那 哪 谁 何 什 怎 几 个 些
    每 各 某 另 一 上 下 里 中 后 前 我们 你们 他们 她们 它们 咱们 自己 大家 人家 这个 那个 这些 那些 这样 那样
    这里 那里 这么 那么 哪个 哪些 哪里 什么 怎么 怎样 为什么 多少 一个 一些 一种 一样 没有 不是 就是 还是 但是
    可是 不过 然而 因为 所以 因此 如果 虽然 即使 只要 只有 而且 并且 或者 以及 关于 对于 由于 为了 根据 通过
    已经 曾经 正在 可以 可能 能够 应该 必须 需要 非常 十分 比较 还有 只是 以后 以前 之后 之前
"""

STOP_WORDS = frozenset(f"{ENGLISH} {CHINESE}".split())

LETTER_OR_DIGIT = regex.compile(r"[\p{L}\p{N}]")


def is_stop_word(word: str) -> bool:
    """Whether a word is a function word of English or Chinese, a mark without any letter or digit, or `<unk>`."""
    if word == SPECIALS[UNK]:
        return True
    return word.lower().replace("’", "'") in STOP_WORDS or LETTER_OR_DIGIT.search(word) is None
