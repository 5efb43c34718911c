package recipe

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// A power cut leaves files of network plugins empty that were not on the disk. The plugin of
// flannel fails to take such a pod away as often as it is asked (consumeScratchNetConf in
// containernetworking/plugins, plugins/meta/flannel: only a file that is gone is no error), so that a
// drain of the node never ends. What the unit does before containerd starts mends it.
func TestPowerCutLeavesNoPod(t *testing.T) {
	plugin := filepath.Join(os.Getenv("SLIPWAY_BIN"), "bundle", "cni", "flannel")
	if _, err := os.Stat(plugin); err != nil {
		rights.Skip(t, "needs the network plugins; run `make bundle`, and set SLIPWAY_BIN to the folder of programs")
	}
	root := t.TempDir()
	state := func(folder string) string { return filepath.Join(root, "var", "lib", "cni", folder) }
	for file, content := range map[string]string{
		state("flannel/lost"): "", state("results/cbr0-lost-eth0"): "", state("networks/cbr0/10.244.1.2"): "",
		state("networks/cbr0/10.244.1.3"): "kept\r\neth0", state("networks/cbr0/lock"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func() (string, error) {
		cmd := exec.Command(plugin)
		cmd.Env = []string{"CNI_COMMAND=DEL", "CNI_CONTAINERID=lost", "CNI_IFNAME=eth0", "CNI_NETNS=", "CNI_PATH=" + filepath.Dir(plugin)}
		cmd.Stdin = strings.NewReader(`{"cniVersion": "0.3.1", "name": "cbr0", "type": "flannel", "dataDir": "` + state("flannel") + `"}`)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := remove(); err == nil || !strings.Contains(out, "unexpected end of JSON input") {
		t.Errorf("the plugin takes the pod away by itself now, so that the unit need not help: %v\n%s", err, out)
	}
	unit, err := files.ReadFile("files/slipway-containerd.service")
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(unit), "\nExecStartPre=-")
	command, _, _ = strings.Cut(command, "\n")
	words := strings.Fields(strings.Replace(command, " /var/lib/cni ", " "+filepath.Join(root, "var", "lib", "cni")+" ", 1))
	if len(words) == 0 {
		t.Fatal("the unit does nothing before containerd starts")
	}
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	if out, err := remove(); err != nil {
		t.Errorf("the pod is not taken away: %v\n%s", err, out)
	}
	for file, want := range map[string]bool{"networks/cbr0/10.244.1.2": false, "networks/cbr0/10.244.1.3": true, "networks/cbr0/lock": true} {
		if _, err := os.Stat(state(file)); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", file, err == nil, want)
		}
	}
}
