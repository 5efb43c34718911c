// Package client calls runtime extensions.
//
// Call calls one handler, CallAll all that are registered for a hook and match an
// object: at the same time, bounded, under one deadline, with results in the order
// of their names. A request is converted down to the version of each handler, its
// response is converted up.
//
// What can go wrong has a type. A *CallError says that a handler could not be
// called; the failure policy of the handler decides whether that is an error of
// the operation. A *RejectedError is the handler's own refusal, a
// *hook.ConversionError a defect of the catalog: no policy ignores them, nor the
// cancellation of the caller's context.
//
// A handler that cannot be called is left alone for a jittered, exponentially
// growing time, with one probe at its end. Nothing is retried within a call once
// bytes of it were sent.
package client
