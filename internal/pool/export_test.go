package pool

// Replacements is for tests.
var Replacements = replacements
