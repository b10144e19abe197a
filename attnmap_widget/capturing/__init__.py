"""Reading attention out of torch. This package knows torch and nothing of widgets.

``capture`` opens a with block (``listening``); inside it attention calls are intercepted
(``function_mode`` for torch, ``kernels`` for its own attention, ``transformers_calls`` for that
library), traced back to q and k (``provenance``, ``rules``) and on to the values (``mixing``),
checked against what the model computed (``verify``), numbered (``numbering``) and filed
(``recorder``) as ``AttentionCall``s whose weights are rebuilt on demand (``records``).
"""

from .calls import AttentionCall
from .captures import Capture, capture

__all__ = ["AttentionCall", "Capture", "capture"]
