package network

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// MachineNetNS is the name under which EnterAndExec passes on the network
// namespace it came from, for ListenIn.
const MachineNetNS = "machine-netns"

// envInherited holds a JSON object of name to file descriptor.
const envInherited = "SLIPWAY_INHERITED_FDS"

// EnterAndExec replaces the running program by argv inside the namespace of the
// instance: argv[0] is an absolute path, env the whole environment. The files
// are open in the new program, which finds them with Inherited, as well as the
// namespace it came from. It returns only on error.
func EnterAndExec(name string, argv, env []string, files map[string]*os.File) error {
	if len(argv) == 0 {
		return fmt.Errorf("enter network %s: no program given", name)
	}
	machine, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return err
	}
	defer machine.Close()
	pass := maps.Clone(files)
	if pass == nil {
		pass = map[string]*os.File{}
	}
	pass[MachineNetNS] = machine
	return inNamespace(Path(name), func() error {
		inherited, err := keepOpen(pass)
		if err != nil {
			return err
		}
		// Of two variables of one name the first would count.
		env := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, envInherited+"=") })
		err = syscall.Exec(argv[0], argv, append(env, envInherited+"="+inherited))
		return fmt.Errorf("exec %s: %w", argv[0], err)
	})
}

// keepOpen clears close-on-exec and returns the value of envInherited.
func keepOpen(files map[string]*os.File) (string, error) {
	fds := make(map[string]int, len(files))
	for name, f := range files {
		fd := int(f.Fd())
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return "", fmt.Errorf("pass on %s: %w", name, err)
		}
		fds[name] = fd
	}
	b, err := json.Marshal(fds)
	return string(b), err
}

// Inherited returns the files that EnterAndExec passed on, none if the program
// was started otherwise. They are not passed on to further programs. Call it once.
func Inherited() (map[string]*os.File, error) {
	v, ok := os.LookupEnv(envInherited)
	if !ok {
		return nil, nil
	}
	var fds map[string]int
	if err := json.Unmarshal([]byte(v), &fds); err != nil {
		return nil, fmt.Errorf("%s: %w", envInherited, err)
	}
	files := make(map[string]*os.File, len(fds))
	for name, fd := range fds {
		unix.CloseOnExec(fd)
		files[name] = os.NewFile(uintptr(fd), name)
	}
	return files, os.Unsetenv(envInherited)
}
