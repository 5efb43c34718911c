// Package throttle keeps controllers from work that nobody needs. A Queue lets an
// object rest between two reconciles when those grow with the object: a pool of thousands
// looks at each member, and each member wakes it several times on its way. A Status holds
// back the report of states that pass by themselves: in a large pool, most are over before
// anybody reads them, and each report is a write that wakes every controller that watches
// the object.
//
// Controllers, managers and the plane import it; it imports nothing of this module.
package throttle
