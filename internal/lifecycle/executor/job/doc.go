// Package job executes job steps: a Job of the workload or the management cluster runs
// once and must succeed.
//
// That it never runs twice does not hang on luck with crashes. Each line below is
// durable before the next begins:
//
//	the name of the Job         in the run's progress
//	the Job, suspended          it runs nothing yet: to create it twice would do no harm
//	the UID of the Job          in the run's progress; from here on a missing Job is an error
//	the Job, resumed
//	its result and its logs     in a Secret that the run owns
//	the Job is deleted
//	the outcome                 in the run's progress
//
// It may import the API, step, jobspec and workload.
package job
