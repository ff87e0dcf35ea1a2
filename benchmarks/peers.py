"""sentence-transformers, beside which encoding and training are timed."""


def peer(folder, device="cpu", length=256, pooling="mean"):
    """A SentenceTransformer with its own tokens, forward pass and pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    module = Transformer(str(folder), max_seq_length=length)
    width = module.get_embedding_dimension()
    return SentenceTransformer(modules=[module, Pooling(width, pooling)], device=device)


def model_of_berts_shape(folder, tokenizer, **sizes):
    """Write a checkpoint with random weights, of BERT-base's sizes unless others are given.

    `tokenizer` is the folder whose tokenizer it has.
    """
    import torch
    import transformers

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.BertModel(transformers.BertConfig(**sizes))
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
    return folder
