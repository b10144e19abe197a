"""Reading attention out of torch. This package knows torch and nothing of widgets.

``capture`` opens a with block; inside it attention calls are intercepted (``function_mode`` for
torch, ``transformers_calls`` for the transformers library, ``flex`` for flex_attention), traced
back to q and k (``provenance``), checked against what the model computed (``verify``) and filed
(``recorder``) as ``AttentionCall``s whose weights are rebuilt on demand (``records``).
"""

from .calls import AttentionCall
from .captures import Capture, capture

__all__ = ["AttentionCall", "Capture", "capture"]
