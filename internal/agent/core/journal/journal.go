package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/durable"
)

// compactAt is the file size in bytes from which the journal is rewritten with
// its last record only.
const compactAt = 256 << 10

// Journal holds the state in memory and on disk. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	path string
	file *os.File
	size int64
	// spare is the file that the journal is rewritten into; nil while there is none.
	spare *os.File
	state State
	// frozen is true where nothing may be written.
	frozen bool
}

// ErrFrozen is returned by an Update of a journal that is only looked at.
var ErrFrozen = errors.New("this journal is another agent's")

// Open reads the journal at path and makes it when there is none. The directory
// must exist. A torn end, which a power cut leaves, is cut off. A journal that is
// damaged is kept beside the new one, which has State.Lost.
func Open(path string) (*Journal, error) { return open(path, "") }

// Reopen opens the journal of an agent that has worked on the host before: without a file,
// State.Lost says so.
func Reopen(path string) (*Journal, error) { return open(path, "the journal "+path+" is gone") }

func open(path, missing string) (*Journal, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	state, valid, damage := recoverState(data, err == nil)
	j := &Journal{path: path, state: state}
	if err != nil && missing != "" {
		j.state.Lost = &Loss{Why: missing}
	}
	if damage != "" {
		kept, err := keepAside(path)
		if err != nil {
			return nil, fmt.Errorf("keep the damaged journal: %w", err)
		}
		j.state.Lost = &Loss{Why: fmt.Sprintf("the journal is damaged (%s); what there is of it is in %s", damage, kept)}
	}
	j.spare, _ = openSpare(path) // without one, as on a disk that is full already, a rewrite makes it
	if damage == "" && int(valid) == len(data) && len(data) > 0 && valid < compactAt {
		j.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o600)
		j.size = valid
		if err != nil {
			return nil, fmt.Errorf("open the journal: %w", err)
		}
		reserve(j.file)
		return j, nil
	}
	if err := j.compact(); err != nil {
		return nil, err
	}
	return j, nil
}

// InMemory returns a journal without a file, for simulated agents.
func InMemory() *Journal { return &Journal{} }

// Frozen returns the journal at path for an agent that only looks: the file stays as it is.
func Frozen(path string) (*Journal, error) {
	state, err := Read(path)
	return &Journal{path: path, state: state, frozen: true}, err
}

// Read returns the state at path without writing anything, for a command that
// only looks. A missing file is an empty state.
func Read(path string) (State, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return State{}, fmt.Errorf("read the journal: %w", err)
	}
	state, _, damage := recoverState(data, err == nil)
	if damage != "" {
		state.Lost = &Loss{Why: fmt.Sprintf("the journal is damaged (%s)", damage)}
	}
	return state, nil
}

// DamagedSuffix follows the name of a journal in those of its damaged ones.
const DamagedSuffix = ".damaged"

// keepAside gives a damaged journal a second name, under which it stays. Done again for the same
// file, as after a power cut, it does nothing.
func keepAside(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		kept := path + DamagedSuffix
		if n > 1 {
			kept += "-" + strconv.Itoa(n)
		}
		err := os.Link(path, kept)
		if !errors.Is(err, fs.ErrExist) {
			return kept, errors.Join(err, durable.SyncDir(filepath.Dir(path)))
		}
		if there, err := os.Stat(kept); err == nil && os.SameFile(there, info) {
			return kept, nil
		}
	}
}

// State returns a copy of the current state.
func (j *Journal) State() State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return clone(j.state)
}

// Update changes the state. When it returns nil, the change is on disk; when it
// returns an error, the state in memory is unchanged.
func (j *Journal) Update(change func(*State)) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.frozen {
		return ErrFrozen
	}
	next := clone(j.state)
	change(&next)
	if j.path != "" {
		if err := j.append(next); err != nil {
			return fmt.Errorf("write the journal %s: %w; free space on its disk, the agent tries again", j.path, err)
		}
	}
	j.state = next
	return nil
}

// Close releases the files.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, f := range []*os.File{j.file, j.spare} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func (j *Journal) append(s State) error {
	line, err := encode(s)
	if err != nil {
		return err
	}
	if j.size+int64(len(line)) > compactAt {
		previous := j.state
		j.state = s
		if err := j.compact(); err != nil {
			j.state = previous
			return err
		}
		return nil
	}
	if err := j.write(line); err != nil {
		// A partial line would hide the next one: go back to the last whole record.
		err = errors.Join(err, j.file.Truncate(j.size))
		reserve(j.file)
		return err
	}
	j.size += int64(len(line))
	return nil
}

func (j *Journal) write(line []byte) error {
	if _, err := j.file.Write(line); err != nil {
		return err
	}
	return durable.SyncFile(j.file)
}

// SpareSuffix follows the name of a journal in that of its spare file.
const SpareSuffix = ".spare"

// openSpare makes the file that the journal is rewritten into, and has its room reserved before the
// disk is full. What an interrupted rewrite left in it is no journal.
func openSpare(path string) (*os.File, error) {
	f, err := os.OpenFile(path+SpareSuffix, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		if err := f.Truncate(0); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	reserve(f)
	return f, nil
}

// reserve keeps room on the disk for all that a journal grows to: a reset has to record its steps on the
// very disk that it frees. Where the file system cannot, the journal needs room when it is written.
func reserve(f *os.File) {
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, reserved)
}

// reserved is the size in bytes that a journal does not exceed but for one record.
const reserved = 2 * compactAt

// compact replaces the file by one with the current state only, in the room of the spare file.
func (j *Journal) compact() error {
	line, err := encode(j.state)
	if err != nil {
		return err
	}
	if j.spare == nil {
		if j.spare, err = openSpare(j.path); err != nil {
			return err
		}
	}
	if _, err = j.spare.Write(line); err == nil {
		err = durable.SyncFile(j.spare)
	}
	if err == nil {
		err = durable.Rename(j.path+SpareSuffix, j.path)
	}
	if err != nil && !sameFile(j.spare, j.path) {
		err = errors.Join(err, j.spare.Truncate(0))
		reserve(j.spare)
		return fmt.Errorf("make the journal in %s: %w", filepath.Dir(j.path), err)
	}
	if j.file != nil {
		err = errors.Join(err, j.file.Close())
	}
	j.file, j.size = j.spare, int64(len(line))
	j.spare, _ = openSpare(j.path)
	return err
}

// sameFile says whether an open file is the one that is at path.
func sameFile(f *os.File, path string) bool {
	opened, err := f.Stat()
	there, missing := os.Stat(path)
	return err == nil && missing == nil && os.SameFile(opened, there)
}

func encode(s State) ([]byte, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(body), body), nil
}

// recoverState returns the last record that can be read, how many bytes up to its end are in order, and
// what is wrong when a record cannot be read. The end of a write that never returned is not wrong: it has
// no end of line, or zeros where a block was not written. Of a file that was not found nothing is wrong.
func recoverState(data []byte, found bool) (state State, valid int64, damage string) {
	at := int64(0)
	for n, rest := 1, data; len(rest) > 0; n++ {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			break
		}
		line := rest[:end]
		rest = rest[end+1:]
		at += int64(end) + 1
		if s, ok := decode(line); ok {
			state, valid = s, at
		} else if len(rest) > 0 || bytes.IndexByte(line, 0) < 0 {
			damage = fmt.Sprintf("record %d cannot be read", n)
		}
	}
	// The first record is on the disk before the file has its name.
	switch {
	case !found || valid > 0 || damage != "":
	case len(data) == 0:
		damage = "it is empty"
	default:
		damage = "there is no record in it"
	}
	return state, valid, damage
}

func decode(line []byte) (State, bool) {
	sum, body, found := bytes.Cut(line, []byte(" "))
	if !found {
		return State{}, false
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || crc32.ChecksumIEEE(body) != uint32(want) {
		return State{}, false
	}
	var s State
	if err := json.Unmarshal(body, &s); err != nil {
		return State{}, false
	}
	return s, true
}

// clone copies through JSON: the state is small and the copy is sure to be deep.
func clone(s State) State {
	body, err := json.Marshal(s)
	if err != nil {
		panic("journal: a state that cannot be encoded: " + err.Error())
	}
	var c State
	if err := json.Unmarshal(body, &c); err != nil {
		panic("journal: a state that cannot be decoded: " + err.Error())
	}
	return c
}
