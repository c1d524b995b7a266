"""Find the intents that nobody has labelled among questions to a bank, name one, and find questions by the name."""

from collections import Counter

import supquant
from supquant.demo import QUESTIONS

items = supquant.open_vectors(QUESTIONS, labels="intent", ids="id", metadata=["text", "true_intent"])
few = slice(0, 1500)
X, texts = items.X[few], items.metadata["text"].to_pylist()[few]
truth = items.metadata["true_intent"].to_pylist()[few]  # what the labels would be; the model does not see it

quantizer = supquant.SupervisedQuantizer(n_codebooks=4, random_state=0).fit(X, items.labels[few])
found = quantizer.found_
for group, members in enumerate(found.members):
    intent, count = Counter(truth[row] for row in members).most_common(1)[0]
    print(f"group {group}: {len(members)} questions, {count / len(members):.0%} of them {intent}")
    for row in found.typical[group][:2]:
        print(f"    {texts[row]}")

members = found.members[0]
name = Counter(truth[row] for row in members).most_common(1)[0][
    0
]  # a person would read them, and give a name
quantizer.extend(X[members], [name] * len(members))
print(f"{(quantizer.predict(X[members]) == name).mean():.0%} of group 0 are now recognised as {name}")
