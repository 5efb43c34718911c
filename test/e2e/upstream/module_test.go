package upstream

import (
	"encoding/json"
	"os"
	"os/exec"
)

// moduleDir is the folder of the source of a module, in the version that go.mod requires. It
// is downloaded when the module cache lacks it: the packages of the module that this one
// imports are no part of a build without the tag e2e.
func moduleDir(module string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	err = json.Unmarshal(out, &downloaded)
	return downloaded.Dir, err
}
