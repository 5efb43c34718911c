package hook

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// checkTags refuses JSON tags of t, and of what is in it, with a meaning that
// encoding/json does not know. Upstream's side and the OpenAPI document would read
// another body than this one. Types that read themselves may have any.
func checkTags(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] || reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return checkTags(t.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	for field := range t.Fields() {
		if field.Tag.Get("json") == "-" || !field.IsExported() && !field.Anonymous {
			continue
		}
		if err := checkTag(field); err != nil {
			return fmt.Errorf("field %s of %s: JSON tag %q: %w", field.Name, t, field.Tag.Get("json"), err)
		}
		if err := checkTags(field.Type, seen); err != nil {
			return err
		}
	}
	return nil
}

func checkTag(field reflect.StructField) error {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if strings.ContainsAny(name, `"'\`+"`") {
		return fmt.Errorf("encoding/json ignores a name with quotes or backslashes")
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "", "omitempty", "omitzero", "string":
		case "inline":
			// Usual on embedded structs, which are inline anyway.
			if !field.Anonymous {
				return fmt.Errorf("encoding/json ignores inline; embed the struct")
			}
		default:
			name, _, _ := strings.Cut(option, ":")
			return fmt.Errorf("encoding/json ignores the option %s", name)
		}
	}
	return nil
}
