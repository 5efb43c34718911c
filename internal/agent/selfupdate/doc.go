// Package selfupdate brings the version of slipway-agent that a Host asks for onto the host:
// verified, on trial, and back where it does not prove itself.
//
// The agent that runs stays in charge until another one has proved itself. Updater.Run fetches
// and verifies the bundle as that of any host software, puts the program beside its own as
// NAME.next, and makes sure that it is the ordered version. Once no operation is at work, the
// agent ends its link to the management cluster, closes its journal and gives up its state
// directory; Updater.Try then runs the new program as its child, with its own arguments, and
// judges it. A new agent that proves itself takes the place of the old program by a rename,
// and Updater.Become makes it of this very process. One that does not is killed, and the old
// agent goes on.
//
// What an agent on trial must do, in all versions to come: Variable names a file descriptor,
// the writing end of a pipe. The agent writes the line "started" to it once it has the state
// directory and keeps the control-plane address, and the line "reported" once its management
// cluster has accepted a heartbeat and a status with its version. Until it is started without
// Variable it begins no operation, writes no journal and goes to no other management cluster
// or namespace, so that the old agent finds all as it left it.
//
// A record in the state directory counts the trials before they begin: a program that takes
// the machine down is not tried for ever. A power cut at any point leaves a program of one of
// the two versions under the name of the agent, and a record that either of them goes on with.
//
// It may import the API types, the agent's packages hostos, and software for the sources of
// bundles, internal/hostbundle, internal/durable and internal/version. The agent's package
// run does it.
package selfupdate
