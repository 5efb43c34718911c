package operation

import (
	"fmt"
	"strings"
)

// maxNamed bounds how many leftovers a message names.
const maxNamed = 8

// UnknownChanges begins what Verify returns for changes that nobody can know, since their record is
// lost. Another reset finds no more.
const UnknownChanges = "unknown changes: "

// NotClean is the error of a host on which something of Kubernetes is left.
func NotClean(left []string, remedy string) error {
	named := left
	if len(named) > maxNamed {
		named = append(append([]string{}, left[:maxNamed]...), fmt.Sprintf("and %d more", len(left)-maxNamed))
	}
	return &Error{Reason: ReasonNotClean, Retry: RetryNever,
		Message: fmt.Sprintf("the host is not clean: %s; %s", strings.Join(named, ", "), remedy)}
}
