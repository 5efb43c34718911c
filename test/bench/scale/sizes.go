package main

import (
	"fmt"
	"strconv"
	"strings"
)

// sizes is a flag of numbers separated by commas.
type sizes []int

// String implements flag.Value.
func (s *sizes) String() string {
	words := make([]string, 0, len(*s))
	for _, n := range *s {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// Set implements flag.Value.
func (s *sizes) Set(value string) error {
	*s = nil
	if value == "" {
		return nil
	}
	for word := range strings.SplitSeq(value, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a number of hosts", word)
		}
		*s = append(*s, n)
	}
	return nil
}
