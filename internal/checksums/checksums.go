package checksums

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"golang.org/x/mod/sumdb/note"
)

// Names of the list and of its signed note, in the directory of the release.
const (
	List = "SHA256SUMS"
	Note = List + ".note"
)

// statementType is the first line of what is signed, so that a signature for another
// purpose is none here.
const statementType = "slipway.dev/release/v1"

// maxNamed bounds how many files an error names.
const maxNamed = 10

// line is a digest and a name, as sha256sum writes them.
var line = regexp.MustCompile(`^([0-9a-f]{64})  ([^\s].*)$`)

// Sign writes the note of the list in a directory. The version is that of the release.
func Sign(dir, version string, signer note.Signer) error {
	list, err := os.ReadFile(filepath.Join(dir, List))
	if err != nil {
		return err
	}
	text := statementType + "\n" + version + "\n" + string(list)
	if _, err := parse(text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, List), err)
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, Note), signed, 0o644)
}

// Release is what a directory was found to hold.
type Release struct {
	// Version that was signed.
	Version string
	// Signers are the names of the keys by which it was.
	Signers []string
	// Verified are the files that are what the list says, and Missing those of the list
	// that are not there.
	Verified, Missing []string
}

// Verify compares all files in a directory with the signed list there. It is an error
// when the list is that of another version, which an older one with a fault that is known
// may be, when a file differs or is not of the release, and when there is none at all. A
// part of a release may be missing: who needs it will notice.
func Verify(dir, version string, keys note.Verifiers) (*Release, error) {
	signed, err := os.ReadFile(filepath.Join(dir, Note))
	if err != nil {
		return nil, err
	}
	opened, err := note.Open(signed, keys)
	if err != nil {
		return nil, fmt.Errorf("%s is not signed by a key that is trusted here: %w", Note, err)
	}
	statement, err := parse(opened.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Note, err)
	}
	if statement.version != version {
		return nil, fmt.Errorf("%s is that of release %s, not of %s; do not use it", Note, statement.version, version)
	}
	release := &Release{Version: statement.version}
	for _, s := range opened.Sigs {
		release.Signers = append(release.Signers, s.Name)
	}
	wrong, err := release.compare(dir, statement)
	if err != nil {
		return nil, err
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%d files are not those of release %s: %s; do not use them", len(wrong), statement.version, enumerate(wrong))
	}
	if len(release.Verified) == 0 {
		return nil, fmt.Errorf("no file of release %s is in %s", statement.version, dir)
	}
	for name := range statement.digests {
		if !slices.Contains(release.Verified, name) {
			release.Missing = append(release.Missing, name)
		}
	}
	slices.Sort(release.Missing)
	return release, nil
}

// compare returns what is wrong with the files of a directory.
func (r *Release) compare(dir string, s statement) (wrong []string, _ error) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if name == Note {
			return nil
		}
		want, listed := s.digests[name]
		if name == List {
			want, listed = digest([]byte(s.list)), true
		}
		if !listed || !d.Type().IsRegular() {
			wrong = append(wrong, name+" (not listed)")
			return nil
		}
		same, err := has(path, want)
		switch {
		case err != nil:
			return err
		case !same:
			wrong = append(wrong, name+" (differs)")
		case name != List:
			r.Verified = append(r.Verified, name)
		}
		return nil
	})
	return wrong, err
}

func enumerate(names []string) string {
	if len(names) > maxNamed {
		names = append(slices.Clone(names[:maxNamed]), fmt.Sprintf("%d more", len(names)-maxNamed))
	}
	return strings.Join(names, ", ")
}

// statement is what was signed.
type statement struct {
	version, list string
	digests       map[string]string
}

func parse(text string) (statement, error) {
	kind, rest, _ := strings.Cut(text, "\n")
	version, list, _ := strings.Cut(rest, "\n")
	if kind != statementType {
		return statement{}, errors.New("what is signed is no release")
	}
	if !semver.IsValid(version) {
		return statement{}, fmt.Errorf("%q is no version such as v0.1.0", version)
	}
	s := statement{version: version, list: list, digests: map[string]string{}}
	for entry := range strings.Lines(list) {
		found := line.FindStringSubmatch(strings.TrimSuffix(entry, "\n"))
		if found == nil || !filepath.IsLocal(found[2]) || s.digests[found[2]] != "" {
			return statement{}, fmt.Errorf("%q is no line as sha256sum writes it, or names a file twice or outside of the release", entry)
		}
		s.digests[found[2]] = found[1]
	}
	return s, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func has(path, want string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return false, err
	}
	wanted, err := hex.DecodeString(want)
	return bytes.Equal(hash.Sum(nil), wanted), err
}
