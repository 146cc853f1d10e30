"""Word2vec: skip-gram and continuous bag of words, with negative sampling and with a Huffman tree."""
