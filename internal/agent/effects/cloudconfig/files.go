package cloudconfig

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

const (
	// maxFile and maxFiles bound what the files of one bootstrap decode to, in
	// bytes, so that a small compressed file cannot take the host's memory.
	maxFile  = 16 << 20
	maxFiles = 64 << 20

	defaultMode = fs.FileMode(0o644)
)

type rawFile struct {
	Path        string          `json:"path"`
	Content     string          `json:"content"`
	Encoding    string          `json:"encoding"`
	Owner       string          `json:"owner"`
	Permissions json.RawMessage `json:"permissions"`
	Append      bool            `json:"append"`
	Defer       bool            `json:"defer"`
}

func writeFiles(m json.RawMessage) ([]File, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(m, &items); err != nil {
		return nil, invalid("write_files in the cloud-config must be a list")
	}
	files, total := make([]File, 0, len(items)), 0
	for i, item := range items {
		f, err := writeFile(fmt.Sprintf("write_files[%d]", i), item, min(maxFile, maxFiles-total))
		if err != nil {
			return nil, err
		}
		total += len(f.Content)
		files = append(files, f)
	}
	return files, nil
}

func writeFile(place string, m json.RawMessage, limit int) (File, error) {
	var raw rawFile
	if err := strict(place, m, &raw); err != nil {
		return File{}, err
	}
	if !path.IsAbs(raw.Path) || strings.HasSuffix(raw.Path, "/") || strings.ContainsRune(raw.Path, 0) {
		return File{}, invalid("%s in the cloud-config needs an absolute path of a file", place)
	}
	place += fmt.Sprintf(" (%.200s)", raw.Path)
	f := File{Path: path.Clean(raw.Path), Append: raw.Append, Defer: raw.Defer}
	var err error
	if f.Content, err = decodeContent(raw.Content, raw.Encoding, limit); err != nil {
		return File{}, invalid("%s in the cloud-config: %s", place, err)
	}
	if f.Mode, err = mode(raw.Permissions); err != nil {
		return File{}, invalid("%s in the cloud-config: %s", place, err)
	}
	f.User, f.Group, _ = strings.Cut(raw.Owner, ":")
	return f, nil
}

// encodings by their names in cloud-init, which also takes the two parts of a
// combined name in either order.
func encodings(name string) (isBase64, isGzip bool, err error) {
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" || name == "text/plain" {
		return false, false, nil
	}
	for _, part := range strings.Split(name, "+") {
		switch {
		case (part == "b64" || part == "base64") && !isBase64:
			isBase64 = true
		case (part == "gz" || part == "gzip") && !isGzip:
			isGzip = true
		default:
			return false, false, fmt.Errorf("encoding %.32q is not known; use base64, gzip, gzip+base64 or text/plain", name)
		}
	}
	return isBase64, isGzip, nil
}

func decodeContent(content, encoding string, limit int) ([]byte, error) {
	isBase64, isGzip, err := encodings(encoding)
	if err != nil {
		return nil, err
	}
	data := []byte(content)
	if isBase64 {
		compact := strings.Join(strings.Fields(content), "")
		if data, err = base64.StdEncoding.DecodeString(compact); err != nil {
			return nil, fmt.Errorf("the content is not valid base64")
		}
	}
	if isGzip {
		if data, err = gunzip(data, limit); err != nil {
			return nil, err
		}
	}
	if len(data) > limit {
		return nil, tooLarge(limit)
	}
	return data, nil
}

func tooLarge(limit int) error {
	return fmt.Errorf("the content is larger than %d bytes (%d MiB a file, %d MiB in all)", limit, maxFile>>20, maxFiles>>20)
}

func gunzip(data []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the content is not valid gzip")
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, fmt.Errorf("the content is not valid gzip")
	}
	if len(out) > limit {
		return nil, tooLarge(limit)
	}
	return out, nil
}

// mode reads permissions: a string is octal, a number is what YAML made of it
// (0644 without quotes is octal in YAML 1.1).
func mode(m json.RawMessage) (fs.FileMode, error) {
	if len(m) == 0 || isNull(m) {
		return defaultMode, nil
	}
	var s string
	base, digits := 10, string(m)
	if json.Unmarshal(m, &s) == nil {
		base, digits = 8, strings.TrimPrefix(strings.TrimSpace(s), "0o")
		if digits == "" {
			return defaultMode, nil
		}
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil || n > 0o7777 {
		return 0, fmt.Errorf("permissions must be octal digits in quotes, for example '0640'")
	}
	result := fs.FileMode(n & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			result |= flag
		}
	}
	return result, nil
}
