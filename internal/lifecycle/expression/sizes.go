package expression

import "github.com/google/cel-go/checker"

// Sizes of a large namespace, from which costs are estimated. An expression that is
// dear only beyond them is stopped when it runs.
var listSizes = map[string]uint64{
	HostsVariable:    500,
	ClustersVariable: 200,
	ObjectsVariable:  500,
}

// otherSize is that of every list, map and string inside of objects.
const otherSize = 128

// sizes implements checker.CostEstimator. Objects have no schema here, so that nothing
// else bounds them.
type sizes struct{}

func (sizes) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	if path := element.Path(); len(path) == 1 {
		if size, known := listSizes[path[0]]; known {
			return &checker.SizeEstimate{Min: 0, Max: size}
		}
	}
	return &checker.SizeEstimate{Min: 0, Max: otherSize}
}

func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}
