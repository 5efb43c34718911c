package cloudconfig

import "fmt"

// Reasons of an Error, for conditions.
const (
	// ReasonUnsupportedFormat means that the data is not cloud-config at all.
	ReasonUnsupportedFormat = "UnsupportedBootstrapFormat"
	// ReasonUnsupportedCloudConfig means that it asks for something this agent does not do.
	ReasonUnsupportedCloudConfig = "UnsupportedCloudConfig"
	// ReasonInvalidCloudConfig means that it cannot be read.
	ReasonInvalidCloudConfig = "InvalidCloudConfig"
	// ReasonInvalidTemplate means that the jinja template cannot be rendered.
	ReasonInvalidTemplate = "InvalidTemplate"
)

// Error says why bootstrap data is refused. Trying again with the same data
// does not help.
type Error struct {
	// Reason is one of the constants of this package.
	Reason string
	// Message names the place in the data and the remedy, never its content.
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &Error{Reason: ReasonInvalidCloudConfig, Message: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) error {
	return &Error{Reason: ReasonUnsupportedCloudConfig, Message: fmt.Sprintf(format, args...)}
}
