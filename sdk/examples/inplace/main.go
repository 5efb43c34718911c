// Command inplace is a runtime extension that changes the time servers of machines in
// place: Cluster API makes no new machine for such a change of a KubeadmConfig.
//
// The folder is where an agent on the hosts looks. The extension writes what is wanted
// into MACHINE.want, and the agent copies it to MACHINE.done once it holds.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
)

// config is the part of a KubeadmConfig that changes in place.
type config struct {
	Kind string `json:"kind"`
	Spec struct {
		NTP json.RawMessage `json:"ntp,omitempty"`
	} `json:"spec"`
}

func read(raw []byte) (config, error) {
	var c config
	if len(raw) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("bootstrapConfig: %w", err)
	}
	return c, nil
}

// canUpdate answers with a patch that does to the current objects what this extension
// can do. If it leaves anything of the difference to the desired ones, and no other
// extension does that, Cluster API makes a new machine.
func canUpdate(_ context.Context, r *hooksv1.CanUpdateMachineRequest) (*hooksv1.CanUpdateMachineResponse, error) {
	current, err := read(r.Current.BootstrapConfig.Raw)
	if err != nil {
		return nil, err
	}
	desired, err := read(r.Desired.BootstrapConfig.Raw)
	if err != nil {
		return nil, err
	}
	if current.Kind != "KubeadmConfig" || desired.Kind != current.Kind || bytes.Equal(current.Spec.NTP, desired.Spec.NTP) {
		return nil, nil
	}
	// In a merge patch null takes a field away.
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ntp": desired.Spec.NTP}})
	if err != nil {
		return nil, err
	}
	return &hooksv1.CanUpdateMachineResponse{
		BootstrapConfigPatch: hooksv1.Patch{PatchType: hooksv1.JSONMergePatchType, Patch: patch},
	}, nil
}

// folder is where agents are told what to do. Whoever can call the extension chooses
// the names of machines: an os.Root keeps them within.
type folder struct{ root *os.Root }

// update is called again until it asks for no retry. All that it knows is in the folder,
// so that another replica may go on.
func (f folder) update(_ context.Context, r *hooksv1.UpdateMachineRequest) (*hooksv1.UpdateMachineResponse, error) {
	desired, err := read(r.Desired.BootstrapConfig.Raw)
	if err != nil {
		return nil, err
	}
	machine := r.Desired.Machine.Namespace + "." + r.Desired.Machine.Name
	done, err := f.root.ReadFile(machine + ".done")
	if err == nil && bytes.Equal(done, desired.Spec.NTP) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := f.write(machine+".want", desired.Spec.NTP); err != nil {
		return nil, err
	}
	return nil, extension.RetryAfter(10*time.Second, "machine "+r.Desired.Machine.Name+" is setting its clock")
}

// write replaces a file as a whole: nobody reads half of it. Two calls for one machine
// may come at once, so each writes to a file of its own first.
func (f folder) write(name string, data []byte) error {
	unique := name + "." + rand.Text()
	file, err := f.root.OpenFile(unique, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = f.root.Rename(unique, name)
	}
	if err != nil {
		return errors.Join(err, f.root.Remove(unique))
	}
	return nil
}

func register(server *extension.Server, f folder) error {
	if err := extension.Handle(server, capi.CanUpdateMachine, "ntp-can-update", canUpdate); err != nil {
		return err
	}
	return extension.Handle(server, capi.UpdateMachine, "ntp-update", f.update)
}

func main() {
	dir := flag.String("folder", "/var/lib/ntp-agents", "where agents look for what is wanted")
	flag.Parse()
	root, err := os.OpenRoot(*dir)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	server, err := extension.New(extension.Options{CertFile: "tls.crt", KeyFile: "tls.key"})
	if err == nil {
		err = register(server, folder{root})
	}
	if err == nil {
		err = server.Run(ctx)
	}
	if err != nil {
		log.Print(err)
	}
}
