// Package plan decides what happens next in a LifecycleRun. It is pure: a run and the
// time come in, an action comes out; what the action leads to is written into the run's
// spec by functions of this package, too. So all there is to know about a run follows
// from its spec, and a controller that dies at any point goes on from what it wrote.
//
//	Next    what is to be done now
//	Apply, RecordAttempt   write into the record what was, or is to be, done
//	Phase, Current, Blocks        tell where the run stands
//	Adopt   takes over a changed policy
//	CancelReason  why a run is to be given up
//	Open, Settled  whether a policy still has a say, and whether anything can happen
//
// The order of writes: Begin is stored before the first attempt; a job that an
// executor is about to create is stored before it does (step.Result.Job); the outcome
// of an attempt is stored after it.
//
// It may import the API and step, and neither a client nor a context.
package plan
