// Package rollout plans what brings a pool nearer to its size, its version and its
// revision. It is pure: a Pool, which is what was seen of it, goes in; a Plan, which
// is a list of steps with a reason each and what holds the rest back, comes out. The
// same pool always gives the same plan, whatever order its members come in.
//
// What a plan keeps, if its steps are carried out in order and whether or not all
// of them are:
//
//   - It never takes the available members below desired - maxUnavailable, and below
//     what there is when that is less already. A member that scaling down removes
//     because of its mark (Member.Marked) is the one exception.
//   - It never takes the members that are not leaving above desired + maxSurge.
//   - It never takes a member from a host that is to be emptied before another host is
//     free for the one in its place.
//   - It never removes for size what it created, unless the desired size changed.
//
// It may import the API types and apimachinery.
package rollout
