package hostbundle

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
	ChecksumsList = "SHA256SUMS"
	ChecksumsNote = ChecksumsList + ".note"
)

// releaseType is the first line of what is signed, so that a signature for another
// purpose is none here.
const releaseType = "slipway.dev/release/v1"

// maxNamedFiles bounds how many files an error names.
const maxNamedFiles = 10

// checksumLine is a digest and a name, as sha256sum writes them.
var checksumLine = regexp.MustCompile(`^([0-9a-f]{64})  ([^\s].*)$`)

// SignRelease writes the note of the list in a directory. The version is that of the release.
func SignRelease(dir, version string, signer note.Signer) error {
	list, err := os.ReadFile(filepath.Join(dir, ChecksumsList))
	if err != nil {
		return err
	}
	text := releaseType + "\n" + version + "\n" + string(list)
	if _, err := parseChecksums(text); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, ChecksumsList), err)
	}
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ChecksumsNote), signed, 0o644)
}

// Release is the content of a verified directory.
type Release struct {
	// Version that was signed.
	Version string
	// Signers are the names of the keys by which it was.
	Signers []string
	// Verified are the files that are what the list says, and Missing those of the list
	// that are not there.
	Verified, Missing []string
}

// VerifyRelease compares all files in a directory with the signed list there. It is an error
// when the list is that of another version, which an older one with a fault that is known
// may be, when a file differs or is not of the release, and when there is none at all. A
// part of a release may be missing: who needs it will notice.
func VerifyRelease(dir, version string, keys note.Verifiers) (*Release, error) {
	signed, err := os.ReadFile(filepath.Join(dir, ChecksumsNote))
	if err != nil {
		return nil, err
	}
	opened, err := note.Open(signed, keys)
	if err != nil {
		return nil, fmt.Errorf("%s is not signed by a key that is trusted here: %w", ChecksumsNote, err)
	}
	statement, err := parseChecksums(opened.Text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ChecksumsNote, err)
	}
	if statement.version != version {
		return nil, fmt.Errorf("%s is that of release %s, not of %s; do not use it", ChecksumsNote, statement.version, version)
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
func (r *Release) compare(dir string, s releaseStatement) (wrong []string, _ error) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if name == ChecksumsNote {
			return nil
		}
		want, listed := s.digests[name]
		if name == ChecksumsList {
			want, listed = digestOf([]byte(s.list)), true
		}
		if !listed || !d.Type().IsRegular() {
			wrong = append(wrong, name+" (not listed)")
			return nil
		}
		same, err := hasDigest(path, want)
		switch {
		case err != nil:
			return err
		case !same:
			wrong = append(wrong, name+" (differs)")
		case name != ChecksumsList:
			r.Verified = append(r.Verified, name)
		}
		return nil
	})
	return wrong, err
}

func enumerate(names []string) string {
	if len(names) > maxNamedFiles {
		names = append(slices.Clone(names[:maxNamedFiles]), fmt.Sprintf("%d more", len(names)-maxNamedFiles))
	}
	return strings.Join(names, ", ")
}

// releaseStatement is what was signed.
type releaseStatement struct {
	version, list string
	digests       map[string]string
}

func parseChecksums(text string) (releaseStatement, error) {
	kind, rest, _ := strings.Cut(text, "\n")
	version, list, _ := strings.Cut(rest, "\n")
	if kind != releaseType {
		return releaseStatement{}, errors.New("what is signed is no release")
	}
	if !semver.IsValid(version) {
		return releaseStatement{}, fmt.Errorf("%q is no version such as v0.1.0", version)
	}
	s := releaseStatement{version: version, list: list, digests: map[string]string{}}
	for entry := range strings.Lines(list) {
		found := checksumLine.FindStringSubmatch(strings.TrimSuffix(entry, "\n"))
		if found == nil || !filepath.IsLocal(found[2]) || s.digests[found[2]] != "" {
			return releaseStatement{}, fmt.Errorf("%q is no line as sha256sum writes it, or names a file twice or outside of the release", entry)
		}
		s.digests[found[2]] = found[1]
	}
	return s, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func hasDigest(path, want string) (bool, error) {
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
