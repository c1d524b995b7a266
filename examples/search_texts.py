"""Learn from questions of which some have an intent, and find those that mean the same as others that are asked."""

import supquant
from supquant.demo import ASKED, QUESTIONS

items = supquant.open_vectors(QUESTIONS, labels="intent", ids="id", metadata=["text", "true_intent"])
asked = supquant.open_vectors(ASKED, metadata=["text", "true_intent"])

few = slice(0, 1500)  # enough here; all 3,600 take some ten seconds
quantizer = supquant.SupervisedQuantizer(n_codebooks=4, random_state=0).fit(items.X[few], items.labels[few])
index = supquant.CodeIndex(quantizer).add(
    items.X[few], items.labels[few], items.ids[few], metadata=items.metadata[few]
)
print(f"{len(index)} questions, {quantizer.n_unlabelled_} of them without an intent, in 4 bytes each")

answers = index.search_table(asked.X, k=3).to_pylist()
for question, row in enumerate(asked.metadata.to_pylist()[:6]):
    print(f"\n{row['text']}")
    for answer in answers[3 * question : 3 * question + 3]:
        mark = "right" if answer["true_intent"] == row["true_intent"] else "wrong"
        print(f"    {answer['score']:.2f}  {mark}  {answer['text']}")

intents = [row["true_intent"] for row in asked.metadata.to_pylist()]
right = sum(answer["true_intent"] == intents[answer["query"]] for answer in answers)
print(f"\n{right / len(answers):.0%} of the first three answers to {len(asked)} questions have their intent")
