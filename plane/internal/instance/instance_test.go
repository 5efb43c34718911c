package instance

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

func config() Config {
	return Config{Name: "a", APIPort: DefaultAPIPort, Bundle: "/bundle"}
}

func TestCreateKeepsWhatWasChosen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := Open(dir); !errors.Is(err, ErrNone) {
		t.Fatalf("Open of nothing = %v, want ErrNone", err)
	}
	first, err := Create(dir, config())
	if err != nil || !first.New {
		t.Fatalf("Create = %+v, %v", first, err)
	}
	again, err := Create(dir, Config{Name: "b", APIPort: 1, Bundle: "/moved"})
	if err != nil {
		t.Fatal(err)
	}
	if again.Config != config() || again.New {
		t.Errorf("second Create = %+v, want the first choice", again)
	}
}

func TestApplyChangesWhatMayChange(t *testing.T) {
	yes, no := true, false
	// that of a subtest has its name, and leaves no room for sockets
	dir, count := t.TempDir(), 0
	for name, tc := range map[string]struct {
		change  Change
		running bool
		want    Config
		wantErr string
	}{
		"nothing":                        {Change{}, true, config(), ""},
		"a port":                         {Change{APIPort: 7}, false, Config{Name: "a", APIPort: 7, Bundle: "/bundle"}, ""},
		"an audit log of a running one":  {Change{AuditLog: new(bool)}, true, config(), "slipway down"},
		"no audit log":                   {Change{AuditLog: new(bool)}, false, func() Config { c := config(); c.NoAuditLog = true; return c }(), ""},
		"feature gates of a running one": {Change{FeatureGates: new("A=true")}, true, config(), "slipway down"},
		"logging of a running one":       {Change{LoggingFormat: "json"}, true, config(), "--logging-format json: the plane logs text; run `slipway down` first"},
		"logging as it is":               {Change{LoggingFormat: "text"}, true, func() Config { c := config(); c.LoggingFormat = "text"; return c }(), ""},
		"logging":                        {Change{LoggingFormat: "json"}, false, func() Config { c := config(); c.LoggingFormat = "json"; return c }(), ""},
		"no logging format":              {Change{LoggingFormat: "xml"}, false, config(), "want text or json"},
		"feature gates":                  {Change{FeatureGates: new("A=true")}, false, func() Config { c := config(); c.FeatureGates = "A=true"; return c }(), ""},
		"a port of a running one":        {Change{APIPort: 7}, true, config(), "slipway down"},
		"the port it has":                {Change{APIPort: DefaultAPIPort}, true, config(), ""},
		"a bad port":                     {Change{APIPort: -1}, false, config(), "--api-port"},
		"fast":                           {Change{Fast: &yes}, false, Config{Name: "a", APIPort: DefaultAPIPort, Fast: true, Bundle: "/bundle"}, ""},
		"fast while it runs":             {Change{Fast: &yes}, true, config(), "slipway down"},
		"not fast as it is":              {Change{Fast: &no}, true, config(), ""},
		"another name":                   {Change{Name: "b"}, false, config(), "has the name a"},
		"beside another":                 {Change{Beside: "b"}, false, config(), "--beside b"},
		"an address of a running one":    {Change{Listen: new("192.0.2.1")}, true, config(), "`slipway up` changes that"},
		"an address of one that is started anew": {
			Change{Listen: new("192.0.2.1"), TLSNames: new("a.example"), Restart: true}, true,
			func() Config { c := config(); c.Listen, c.TLSNames = "192.0.2.1", "a.example"; return c }(), "",
		},
		"a bad address":  {Change{Listen: new("[")}, false, config(), `--listen "["`},
		"another bundle": {Change{Bundle: "/moved"}, true, Config{Name: "a", APIPort: DefaultAPIPort, Bundle: "/moved"}, ""},
	} {
		count++
		t.Run(name, func(t *testing.T) {
			i, err := Create(filepath.Join(dir, strconv.Itoa(count)), config())
			if err != nil {
				t.Fatal(err)
			}
			err = i.Apply(tc.change, tc.running)
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("Apply = %v, want %q", err, tc.wantErr)
			}
			kept, err := Open(i.Dir)
			if err != nil || kept.Config != tc.want || i.Config != tc.want {
				t.Errorf("kept %+v in memory %+v, want %+v (%v)", kept.Config, i.Config, tc.want, err)
			}
		})
	}
}

func TestCreateRefusesADirectoryThatIsNotItsOwn(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, config()); err == nil || !strings.Contains(err.Error(), "is not empty and holds no plane") {
		t.Errorf("a directory with files of somebody else, which down --purge would remove: %v", err)
	}
}

// Whoever can write into the directory of a plane is root of the machine by it.
func TestADirectoryThatIsOpenToOthersIsRefused(t *testing.T) {
	var open *statedir.NotPrivateError
	dir := filepath.Join(t.TempDir(), "empty")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, config()); !errors.As(err, &open) || !strings.Contains(err.Error(), "chmod 700 "+dir) {
		t.Errorf("Create in an empty directory with mode 755 = %v", err)
	}
	i := newInstance(t)
	if err := os.Chmod(i.Dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(i.Dir); !errors.As(err, &open) {
		t.Errorf("Open with mode 770 = %v", err)
	}
	if _, err := Create(i.Dir, config()); !errors.As(err, &open) {
		t.Errorf("Create of a plane that is there with mode 770 = %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(i.Dir, 0o700), os.Chown(i.Dir, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(i.Dir); !errors.As(err, &open) || open.UID != 65534 {
		t.Errorf("Open of somebody else's directory = %v", err)
	}
}

func TestValidateNamesTheFlag(t *testing.T) {
	for _, c := range []Config{{Name: "", APIPort: 1}, {Name: "UPPER", APIPort: 1}, {Name: "a/b", APIPort: 1}, {Name: "a", APIPort: 0}, {Name: "a", APIPort: 70000}, {Name: "a", APIPort: 1, Beside: "a"}, {Name: "a", APIPort: 1, Beside: "B"}} {
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is valid", c)
		}
	}
	if err := (Config{Name: "1a", APIPort: 1}).Validate(); err == nil || !strings.HasPrefix(err.Error(), `--name "1a"`) {
		t.Errorf("got %v", err)
	}
}

func newInstance(t *testing.T) *Instance {
	t.Helper()
	i, err := Create(filepath.Join(t.TempDir(), "s"), config())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestLockKeepsOthersOut(t *testing.T) {
	i := newInstance(t)
	lock, err := i.Lock()
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := i.Lock(); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("second Lock = %v, want a *LockedError by process %d", err, os.Getpid())
	}
	lock.Release()
	if lock, err = i.Lock(); err != nil {
		t.Fatalf("Lock after Release = %v", err)
	}
	lock.Release()
}

// The plane that a command was starting when it died has its lock for a moment.
func TestLockWaitsForTheHeirOfADeadCommand(t *testing.T) {
	i := newInstance(t)
	lock, err := i.Lock()
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.Path(lockFile), []byte(strconv.Itoa(dead.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, lock.Release)
	next, err := i.Lock()
	if err != nil {
		t.Fatalf("Lock = %v, want it once the heir has let go", err)
	}
	next.Release()
}

func TestLockOfARemovedPlane(t *testing.T) {
	i := newInstance(t)
	if err := os.Remove(i.Path(ConfigFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Lock(); err == nil {
		t.Error("a plane that another command removed was locked")
	}
}

func TestRemoveMayBeCutOffAnywhere(t *testing.T) {
	i := newInstance(t)
	for _, name := range []string{"etcd", "zzz"} {
		if err := os.MkdirAll(i.Path(name, "member"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(i.Path(lockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := i.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(i.Dir); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	if err := i.Remove(); err != nil {
		t.Errorf("a second Remove = %v", err)
	}
	// What a crash between its last steps leaves may be taken again.
	if err := os.MkdirAll(i.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{lockFile, durable.Temporary(ConfigFile) + "123"} {
		if err := os.WriteFile(i.Path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Create(i.Dir, config()); err != nil {
		t.Errorf("Create over the rest of a removed plane = %v", err)
	}
}

func TestDirectoriesThatWouldFailLater(t *testing.T) {
	for _, dir := range []string{"/tmp/a b", "/tmp/a:b", "/tmp/a,b", "/tmp/ä", "/tmp/" + strings.Repeat("x", 90)} {
		if _, err := Create(dir, config()); err == nil || !strings.Contains(err.Error(), "--state-dir") {
			t.Errorf("Create(%q) = %v, want an error that names --state-dir", dir, err)
		}
	}
}

func TestTwoPlanesMustNotShareAName(t *testing.T) {
	old := ownersDir
	ownersDir = filepath.Join(t.TempDir(), "owners")
	t.Cleanup(func() { ownersDir = old })
	one, two := newInstance(t), newInstance(t)
	for range 2 {
		if err := one.Own(); err != nil {
			t.Fatal(err)
		}
	}
	if err := two.Own(); err == nil || !strings.Contains(err.Error(), one.Dir) || two.Owns() {
		t.Errorf("Own of a taken name = %v, want an error that names %s", err, one.Dir)
	}
	if err := two.Disown(); err != nil || !one.Owns() {
		t.Errorf("Disown of somebody else's name = %v", err)
	}
	if err := one.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := two.Own(); err != nil {
		t.Errorf("Own of the name of a removed plane = %v", err)
	}
	if err := two.Disown(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ownersDir); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}
