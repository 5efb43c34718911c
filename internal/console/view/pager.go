package view

// PageSize is how many hosts or machines are on one page: what a browser lays out at
// once, however many there are.
const PageSize = 240

// Pager is one of several pages.
type Pager struct {
	// Page counts from 1.
	Page, Pages int
	// First and Last are the places of what the page has, counted from 1; Total is how
	// much there is.
	First, Last, Total int
}

// Previous page; 0 on the first.
func (p Pager) Previous() int { return p.Page - 1 }

// Next page; 0 on the last.
func (p Pager) Next() int {
	if p.Page >= p.Pages {
		return 0
	}
	return p.Page + 1
}

// paged returns the part of all that is on a page, or on the nearest there is.
func paged[T any](all []T, page int) ([]T, Pager) {
	p := Pager{Pages: max(1, (len(all)+PageSize-1)/PageSize), Total: len(all)}
	p.Page = min(max(page, 1), p.Pages)
	first := (p.Page - 1) * PageSize
	last := min(first+PageSize, len(all))
	if last > first {
		p.First, p.Last = first+1, last
	}
	return all[first:last], p
}
