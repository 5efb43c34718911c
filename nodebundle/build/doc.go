// Command nodebundle-build turns compiled binaries into a node bundle: the
// directory of everything a local host boots with.
//
//	nodebundle-build assemble --bundle DIR --parts DIR --kubernetes VERSION,... --paired PART-VERSION,...
//	nodebundle-build seed --bundle DIR
//	nodebundle-build archives --bundle DIR --parts DIR --kubernetes VERSION,... --paired PART-VERSION,... --output DIR
//
// assemble packs the control-plane images of every Kubernetes version and the
// network images into one OCI archive and describes the bundle in bundle.json; seed imports that archive once into a
// containerd root directory (store/), which hosts then take by hard links
// instead of importing it themselves. Both do nothing when the bundle already
// holds what they would make, and both may be interrupted at any time: the file
// that vouches for a result is written last. archives writes the images anew, as
// slipway-bundle takes them into host bundles.
//
// Data flows one way: each version's kubeadm names its images (recipe.go), a recipe lists their
// layers (layer.go), machine programs come with their shared libraries (elf.go),
// archive.go writes them out, manifest.go records them, seed.go imports them.
//
// It is a program of the build and of no interest to importers.
package main
