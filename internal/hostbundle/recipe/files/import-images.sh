#!/bin/sh
# Imports the images of host bundles, each archive once. A mark beside the content, by the
# digest of the component, says what is imported: both go together.
set -eu
marks=/var/lib/slipway/containerd/imported
mkdir -p "$marks"
for archive in /opt/slipway/images/*.tar; do
	mark=$marks/$(basename "$(dirname "$(readlink "$archive")")")
	if [ -e "$mark" ]; then continue; fi
	# pinned: the kubelet would remove them when the disk fills up, and no registry has them
	/usr/local/bin/ctr --namespace k8s.io images import --sync-fs --label io.cri-containerd.pinned=pinned "$archive"
	: >"$mark"
done
