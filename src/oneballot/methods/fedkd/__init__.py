"""FedKD (Gong et al.: Preserving Privacy in Federated Learning with Ensemble Cross-Domain Knowledge Distillation,
AAAI 2022).

Each party trains one model and sends its logits on the public set, quantized to S levels. The server sums them, each
class weighted by the party's rows of it, and the final model is distilled from the sums.

`settings` says what can be combined, `method` trains, counts and distils (section "One-shot Distillation", equations 5
to 7), `grid` quantizes and adds up logits (section "Privacy-Preserving Ensemble", equations 1 to 4), `bounds` limits
what one party decides, `passes` augments the public images (Table 2). `softened` is an addition: differential privacy
at L1 and L2, which the paper's own noise does not give (docs/fedkd.md).
"""
