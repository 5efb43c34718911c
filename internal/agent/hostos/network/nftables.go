package network

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/nftables"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// families by their numbers, as nft prints them.
var families = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6",
	nftables.TableFamilyARP: "arp", nftables.TableFamilyNetdev: "netdev", nftables.TableFamilyBridge: "bridge",
}

// nftItem is one thing of nftables: table FAMILY NAME, chain FAMILY TABLE NAME, set FAMILY TABLE
// NAME, object FAMILY TABLE NAME, flowtable FAMILY TABLE NAME, or rule FAMILY TABLE CHAIN DIGEST.
type nftItem struct {
	what        string
	family      nftables.TableFamily
	table, name string
	// handle of a rule, type of an object.
	handle uint64
	kind   uint32
	is     string
}

// dumps are the lists that the kernel gives of nftables, of all families and tables at once.
// They are read as the kernel encodes them: a library that decodes rules has to know each of
// their expressions, and here only whether two are equal counts.
var dumps = []struct {
	message uint16
	read    func(family nftables.TableFamily, attributes map[uint16][]byte) (nftItem, bool)
}{
	{unix.NFT_MSG_GETTABLE, func(family nftables.TableFamily, a map[uint16][]byte) (nftItem, bool) {
		flags := number(a[unix.NFTA_TABLE_FLAGS]) // such as dormant: it has no effect
		return nftItem{what: "table", family: family, table: text(a[unix.NFTA_TABLE_NAME]), is: fmt.Sprintf("table flags=%d", flags)}, true
	}},
	{unix.NFT_MSG_GETCHAIN, func(family nftables.TableFamily, a map[uint16][]byte) (nftItem, bool) {
		is := "chain"
		if hook := a[unix.NFTA_CHAIN_HOOK]; hook != nil {
			is = fmt.Sprintf("hook=%s policy=%s type=%s", hex.EncodeToString(hook), hex.EncodeToString(a[unix.NFTA_CHAIN_POLICY]), text(a[unix.NFTA_CHAIN_TYPE]))
		}
		return nftItem{what: "chain", family: family, table: text(a[unix.NFTA_CHAIN_TABLE]), name: text(a[unix.NFTA_CHAIN_NAME]), is: is}, true
	}},
	{unix.NFT_MSG_GETRULE, func(family nftables.TableFamily, a map[uint16][]byte) (nftItem, bool) {
		expressions := stable(a[unix.NFTA_RULE_EXPRESSIONS])
		sum := sha256.Sum256(append(expressions, a[unix.NFTA_RULE_USERDATA]...))
		item := nftItem{
			what: "rule", family: family, table: text(a[unix.NFTA_RULE_TABLE]), handle: number(a[unix.NFTA_RULE_HANDLE]),
			name: text(a[unix.NFTA_RULE_CHAIN]) + " " + hex.EncodeToString(sum[:6]), is: "rule",
		}
		for _, prefix := range chainPrefixes {
			if bytes.Contains(expressions, []byte(prefix)) {
				item.is += nodeMark
				break
			}
		}
		return item, true
	}},
	{unix.NFT_MSG_GETSET, func(family nftables.TableFamily, a map[uint16][]byte) (nftItem, bool) {
		const anonymous = 1
		item := nftItem{what: "set", family: family, table: text(a[unix.NFTA_SET_TABLE]), name: text(a[unix.NFTA_SET_NAME]), is: "set settings=" + digestOf(
			a[unix.NFTA_SET_FLAGS], a[unix.NFTA_SET_KEY_TYPE], a[unix.NFTA_SET_KEY_LEN], a[unix.NFTA_SET_DATA_TYPE], a[unix.NFTA_SET_DATA_LEN], a[unix.NFTA_SET_TIMEOUT],
		)}
		return item, number(a[unix.NFTA_SET_FLAGS])&anonymous == 0 // that of a rule goes with it
	}},
	{unix.NFT_MSG_GETOBJ, func(family nftables.TableFamily, a map[uint16][]byte) (nftItem, bool) {
		kind := uint32(number(a[unix.NFTA_OBJ_TYPE]))
		is := fmt.Sprintf("type=%d", kind)
		if kind != unix.NFT_OBJECT_COUNTER && kind != unix.NFT_OBJECT_QUOTA { // those that packets change
			is += " settings=" + digestOf(a[unix.NFTA_OBJ_DATA])
		}
		return nftItem{what: "object", family: family, table: text(a[unix.NFTA_OBJ_TABLE]), name: text(a[unix.NFTA_OBJ_NAME]), kind: kind, is: is}, true
	}},
	{unix.NFT_MSG_GETFLOWTABLE, func(family nftables.TableFamily, a map[uint16][]byte) (nftItem, bool) {
		return nftItem{what: "flowtable", family: family, table: text(a[flowtableTable]), name: text(a[flowtableName]), is: "flowtable"}, true
	}},
}

// Attributes of a flowtable (linux/netfilter/nf_tables.h).
const (
	flowtableTable = 1
	flowtableName  = 2
)

func digestOf(values ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(values, []byte{0}))
	return hex.EncodeToString(sum[:6])
}

func (i nftItem) String() string {
	name := i.what + " " + families[i.family] + " " + i.table
	if i.name != "" {
		name += " " + i.name
	}
	return name
}

// listNFTables returns all items by name. Equal rules of a chain are told apart by a number.
func listNFTables() (map[string]nftItem, error) {
	found, order := map[string]nftItem{}, map[string][]byte{}
	for _, d := range dumps {
		replies, err := ReadAll(func() ([][]byte, error) {
			return dump(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|int(d.message), []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0})
		})
		if absent(err) {
			continue // a kernel without nftables, or one that is older than this kind
		}
		if err != nil {
			return nil, err
		}
		for _, m := range replies {
			attributes, err := attributesOf(m)
			if err != nil {
				return nil, err
			}
			item, counts := d.read(nftables.TableFamily(m[0]), attributes)
			if !counts {
				continue
			}
			name := item.String()
			for n := 2; found[name].what != ""; n++ {
				name = fmt.Sprintf("%s (%d)", item, n)
			}
			found[name] = item
			if item.what == "rule" && !strings.HasSuffix(item.is, nodeMark) { // those of a node that is adopted are not recorded
				chain := chainOf(item.String())
				order[chain] = append(order[chain], item.name...)
			}
		}
	}
	for chain, rules := range order {
		if item, there := found[chain]; there { // or it came meanwhile
			item.is += " order=" + digestOf(rules)
			found[chain] = item
		}
	}
	return found, nil
}

// chainOf is the name of the chain of a rule.
func chainOf(rule string) string {
	words := strings.Fields(rule)
	return strings.Join(append([]string{"chain"}, words[1:min(len(words), 4)]...), " ")
}

// ownNFTables says of a thing that changed whether an older agent recorded less of it, or a chain has other rules, which are
// compared themselves: then their order tells nothing.
func ownNFTables(name, before, now string, was, is map[string]string) bool {
	if before == "" || now == "" {
		return false
	}
	for word := range strings.FieldsSeq(before) {
		if key, value, _ := strings.Cut(word, "="); key != "order" && field(now, key) != value {
			return false
		}
	}
	rules := func(all map[string]string) map[string]bool {
		of := map[string]bool{}
		for rule := range all {
			if strings.HasPrefix(rule, "rule ") && chainOf(rule) == name {
				of[rule] = true
			}
		}
		return of
	}
	return !strings.HasPrefix(name, "chain ") || !hasField(before, "order") && !hasField(before, "type") || !maps.Equal(rules(was), rules(is))
}

// attributesOf returns the attributes of a message by type.
func attributesOf(data []byte) (map[uint16][]byte, error) {
	const header = 4 // struct nfgenmsg
	if len(data) < header {
		return nil, errors.New("nftables: a message that is too short")
	}
	all, err := mdnetlink.UnmarshalAttributes(data[header:])
	found := make(map[uint16][]byte, len(all))
	for _, a := range all {
		found[a.Type&^uint16(unix.NLA_F_NESTED)] = a.Data
	}
	return found, err
}

// counting are the expressions whose data changes with each packet.
var counting = [][]byte{[]byte("counter\x00"), []byte("quota\x00"), []byte("last\x00")}

// stable is a list of expressions without what packets change.
func stable(expressions []byte) []byte {
	list, err := mdnetlink.UnmarshalAttributes(expressions)
	if err != nil {
		return expressions
	}
	var kept []byte
	for _, e := range list {
		parts, err := mdnetlink.UnmarshalAttributes(e.Data)
		if err != nil {
			return expressions
		}
		counts := false
		for _, p := range parts {
			for _, name := range counting {
				counts = counts || p.Type == unix.NFTA_EXPR_NAME && bytes.Equal(p.Data, name)
			}
		}
		for _, p := range parts {
			if p.Type == unix.NFTA_EXPR_NAME || !counts {
				kept = append(kept, p.Data...)
			}
		}
	}
	return kept
}

func text(value []byte) string { return string(bytes.TrimRight(value, "\x00")) }

// number reads a number in the byte order of the network.
func number(value []byte) uint64 {
	switch len(value) {
	case 4:
		return uint64(binary.BigEndian.Uint32(value))
	case 8:
		return binary.BigEndian.Uint64(value)
	default:
		return 0
	}
}

func lookNFTables() (map[string]string, error) {
	items, err := listNFTables()
	found := make(map[string]string, len(items))
	for name, i := range items {
		found[name] = i.is
	}
	return found, err
}

// removeNFTables removes, in one transaction, rules before the chains that they jump to, and both
// before sets and objects that they use. A table goes with all that is in it.
func removeNFTables(names []string) error {
	items, err := listNFTables()
	if err != nil {
		return err
	}
	unwanted := set(names)
	c, err := nftables.New()
	if err != nil {
		return err
	}
	for _, of := range []struct {
		what   string
		remove func(*nftables.Table, nftItem)
	}{
		{"rule", func(t *nftables.Table, i nftItem) {
			chain, _, _ := strings.Cut(i.name, " ")
			_ = c.DelRule(&nftables.Rule{Table: t, Chain: &nftables.Chain{Table: t, Name: chain}, Handle: i.handle})
		}},
		{"chain", func(t *nftables.Table, i nftItem) { c.FlushChain(&nftables.Chain{Table: t, Name: i.name}) }},
		{"chain", func(t *nftables.Table, i nftItem) { c.DelChain(&nftables.Chain{Table: t, Name: i.name}) }},
		{"set", func(t *nftables.Table, i nftItem) { c.DelSet(&nftables.Set{Table: t, Name: i.name}) }},
		{"object", func(t *nftables.Table, i nftItem) {
			c.DeleteObject(&nftables.NamedObj{Table: t, Name: i.name, Type: nftables.ObjType(i.kind)})
		}},
		{"flowtable", func(t *nftables.Table, i nftItem) { c.DelFlowtable(&nftables.Flowtable{Table: t, Name: i.name}) }},
		{"table", func(t *nftables.Table, _ nftItem) { c.DelTable(t) }},
	} {
		for name, i := range items {
			gone := of.what != "table" && unwanted[(nftItem{what: "table", family: i.family, table: i.table}).String()]
			if i.what == of.what && unwanted[name] && !gone {
				of.remove(&nftables.Table{Name: i.table, Family: i.family}, i)
			}
		}
	}
	return unlessGone(c.Flush(), "remove from nftables")
}

// restoreNFTables restores the policies of chains, and whether tables are dormant. Rules that went nobody can restore: they are
// named.
func restoreNFTables(before map[string]string) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	items, err := listNFTables()
	if err != nil {
		return err
	}
	var errs []error
	for name, was := range before {
		now, there := items[name]
		if there && now.what == "table" && field(was, "flags") == "0" {
			c.AddTable(&nftables.Table{Name: now.table, Family: now.family}) // which has it do its work again
			continue
		}
		policy, err := hex.DecodeString(field(was, "policy"))
		if !there || now.what != "chain" || err != nil || len(policy) != 4 || field(now.is, "hook") != field(was, "hook") {
			errs = append(errs, fmt.Errorf("nftables: %s cannot be restored", name))
			continue
		}
		p := nftables.ChainPolicy(binary.BigEndian.Uint32(policy))
		c.AddChain(&nftables.Chain{Table: &nftables.Table{Name: now.table, Family: now.family}, Name: now.name, Policy: &p})
	}
	return errors.Join(append(errs, c.Flush())...)
}
