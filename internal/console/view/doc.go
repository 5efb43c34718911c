// Package view makes of what internal/status and internal/runs tell, and of objects,
// what each page of the console shows. Its functions are pure: the same objects always
// give the same page, and no time passes on a page but when something happens. A Timeline
// alone remembers: the events, in their order.
package view
