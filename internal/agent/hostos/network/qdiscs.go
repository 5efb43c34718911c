package network

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

func lookQdiscs() (map[string]string, error) {
	links, _, err := listLinks()
	if err != nil {
		return nil, err
	}
	byLink, err := qdiscsByLink()
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, l := range links {
		all := byLink[l.Attrs().Index]
		for _, q := range all {
			if q.Attrs().Parent == netlink.HANDLE_ROOT || q.Attrs().Parent == netlink.HANDLE_INGRESS || q.Attrs().Parent == netlink.HANDLE_CLSACT {
				of, err := filters(l, q)
				if err != nil {
					return nil, err
				}
				found[qdiscText(q, l)] = q.Type() + " " + of + queues(q, all)
			}
		}
	}
	return found, nil
}

// qdiscsByLink are those of each interface, by its number: the kernel lists those of all interfaces whatever the request names.
func qdiscsByLink() (map[int][]netlink.Qdisc, error) {
	all, err := ReadAll(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(nil) })
	found := map[int][]netlink.Qdisc{}
	for _, q := range all {
		found[q.Attrs().LinkIndex] = append(found[q.Attrs().LinkIndex], q)
	}
	return found, err
}

func qdiscText(q netlink.Qdisc, l netlink.Link) string {
	where := "ingress"
	if q.Attrs().Parent == netlink.HANDLE_ROOT {
		where = "root"
	}
	return where + " of " + l.Attrs().Name
}

// mq is the discipline of an interface with several queues, each of which has one of its own.
const mq = "mq"

// queues has the kinds of the disciplines of the queues, each once.
func queues(root netlink.Qdisc, all []netlink.Qdisc) string {
	if root.Type() != mq {
		return ""
	}
	var kinds []string
	for _, q := range all {
		if ofQueue(q, root) && !slices.Contains(kinds, q.Type()) {
			kinds = append(kinds, q.Type())
		}
	}
	slices.Sort(kinds)
	return "queues=" + strings.Join(kinds, ",")
}

func ofQueue(q, root netlink.Qdisc) bool {
	major, _ := netlink.MajorMinor(q.Attrs().Parent)
	of, _ := netlink.MajorMinor(root.Attrs().Handle)
	return q.Attrs().Parent != netlink.HANDLE_ROOT && major == of
}

// eachFilter calls do with the filters of a clsact or ingress qdisc, by which programs of eBPF see all packets of an
// interface: KIND:NAME@PRIORITY:HANDLE#TAG, without name and tag, which tells programs apart, for other kinds than eBPF.
func eachFilter(l netlink.Link, q netlink.Qdisc, do func(text string, f netlink.Filter)) error {
	if q.Attrs().Parent == netlink.HANDLE_ROOT {
		return nil
	}
	var errs []error
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		all, err := ReadAll(func() ([]netlink.Filter, error) { return netlink.FilterList(l, parent) })
		if !absent(err) { // a kernel without filters
			errs = append(errs, unlessGone(err, "list the filters of "+l.Attrs().Name))
		}
		for _, f := range all {
			is, tag := f.Type(), ""
			if bpf, ok := f.(*netlink.BpfFilter); ok {
				is += ":" + bpf.Name
				tag = "#" + bpf.Tag
			}
			do(fmt.Sprintf("%s@%d:%x%s", is, f.Attrs().Priority, f.Attrs().Handle, tag), f)
		}
	}
	return errors.Join(errs...)
}

func filters(l netlink.Link, q netlink.Qdisc) (string, error) {
	var found []string
	err := eachFilter(l, q, func(text string, _ netlink.Filter) { found = append(found, text) })
	return strings.Join(found, ","), err
}

// removeQdiscs leaves the kernel's default.
func removeQdiscs(names []string) error {
	links, _, err := listLinks()
	errs := []error{err}
	unwanted := set(names)
	byLink, err := qdiscsByLink()
	errs = append(errs, err)
	for _, l := range links {
		for _, q := range byLink[l.Attrs().Index] {
			if unwanted[qdiscText(q, l)] && q.Attrs().Handle != 0 {
				errs = append(errs, unlessGone(netlink.QdiscDel(q), "remove queueing discipline "+qdiscText(q, l)))
			}
		}
	}
	return errors.Join(errs...)
}

// restoreQdiscs gives an interface the kind of discipline back that it had, with the kernel's parameters, and takes filters off that came. Filters
// that went nobody can restore.
func restoreQdiscs(before map[string]string) error {
	links, _, err := listLinks()
	errs := []error{err}
	byLink, err := qdiscsByLink()
	errs = append(errs, err)
	for _, l := range links {
		for _, q := range byLink[l.Attrs().Index] {
			text := qdiscText(q, l)
			was, wanted := before[text]
			if !wanted || q.Attrs().Parent != netlink.HANDLE_ROOT && q.Attrs().Parent != netlink.HANDLE_INGRESS {
				continue
			}
			if kind, rest, _ := strings.Cut(was, " "); q.Attrs().Parent == netlink.HANDLE_ROOT {
				err = restoreRoot(l, q, kind, strings.TrimPrefix(rest, "queues="))
			} else {
				err = removeFilters(l, q, strings.Split(rest, ","))
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("restore queueing discipline %s: %w", text, err))
			}
		}
	}
	return errors.Join(errs...)
}

// restoreRoot replaces the discipline of an interface, and those of its queues if they were all of one kind.
func restoreRoot(l netlink.Link, now netlink.Qdisc, kind, queues string) error {
	if now.Attrs().Handle != 0 && now.Type() != kind {
		if err := unlessGone(netlink.QdiscDel(now), "remove it"); err != nil { // the kernel's own comes
			return err
		}
	}
	replace := func(parent uint32, kind string) error {
		return netlink.QdiscReplace(&netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: parent}, QdiscType: kind})
	}
	all, err := ReadAll(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(l) })
	root := slices.IndexFunc(all, func(q netlink.Qdisc) bool { return q.Attrs().Parent == netlink.HANDLE_ROOT })
	if err != nil || root >= 0 && all[root].Type() == kind && (kind != mq || all[root].Attrs().Handle != 0) {
		// It is what it was, or its queues can be named.
	} else if err = replace(netlink.HANDLE_ROOT, kind); err == nil {
		all, err = ReadAll(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(l) })
		root = slices.IndexFunc(all, func(q netlink.Qdisc) bool { return q.Attrs().Parent == netlink.HANDLE_ROOT })
	}
	errs := []error{err}
	if kind == mq && root >= 0 && queues != "" && !strings.Contains(queues, ",") {
		for _, q := range all {
			if ofQueue(q, all[root]) && q.Type() != queues {
				errs = append(errs, replace(q.Attrs().Parent, queues))
			}
		}
	}
	return errors.Join(errs...)
}

// removeFilters removes those that are not among the ones from before.
func removeFilters(l netlink.Link, q netlink.Qdisc, before []string) error {
	var errs []error
	listed := eachFilter(l, q, func(text string, f netlink.Filter) {
		kind, at, _ := strings.Cut(text, "@")
		untagged, _, _ := strings.Cut(text, "#")
		if slices.Contains(before, text) || slices.Contains(before, untagged) || slices.Contains(before, kind) { // an older agent recorded no more
			return
		}
		priority, _, _ := strings.Cut(at, ":")
		if !slices.ContainsFunc(before, func(b string) bool { return strings.Contains(b, "@"+priority+":") }) {
			a := *f.Attrs() // all of a priority go together, with what the kernel keeps for them
			a.Handle = 0
			f = &netlink.GenericFilter{FilterAttrs: a, FilterType: f.Type()}
		}
		errs = append(errs, unlessGone(netlink.FilterDel(f), "remove filter "+text))
	})
	return errors.Join(append(errs, listed)...)
}

// sameFilters compares two fingerprints, of which an older agent may have recorded the first.
func sameFilters(before, now string) bool {
	end := "@"
	if strings.Contains(before, "#") {
		return before == now
	} else if strings.Contains(before, "@") {
		end = "#"
	}
	words := strings.Split(now, ",")
	for i, w := range words {
		words[i], _, _ = strings.Cut(w, end)
	}
	return strings.Join(words, ",") == before
}
