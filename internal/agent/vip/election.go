package vip

import (
	"context"
	"crypto/hmac"
	"fmt"
	"math"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// renew renews the Lease of this host. An API server that is not ready counts as
// one that does not answer: a client that is sent there finds nothing.
func (k *Keeper) renew(ctx context.Context) {
	deadline := k.renewed.Add(RenewDeadline)
	ctx, cancel := context.WithTimeout(ctx, min(requestTimeout, max(deadline.Sub(k.Now()), 0)))
	defer cancel()
	err := k.claim(ctx)
	if apierrors.IsConflict(err) {
		// Somebody changed the Lease: its holder, or only a label.
		err = k.reread(ctx)
	}
	switch {
	case err == nil:
		if k.leading {
			k.take()
		}
		return
	case apierrors.IsNotFound(err):
		k.drop("the Lease was deleted")
	case !k.Now().Before(deadline):
		if k.drop(fmt.Sprintf("the Lease could not be renewed for %s: %v", RenewDeadline, err)) {
			k.release(ctx)
		}
		k.yields = k.Now().Add(LeaseDuration + renewInterval)
	}
	k.observer.failures.Add(1)
	k.note(err)
}

// reread finds out after a conflict whether this host is still the holder.
func (k *Keeper) reread(ctx context.Context) error {
	lease, err := k.Server.Lease(ctx)
	if err != nil {
		return err
	}
	k.observe(lease)
	if !k.mine(lease) {
		k.drop(fmt.Sprintf("the holder is %q now, by another hand", ptr.Deref(lease.Spec.HolderIdentity, "")))
		return nil
	}
	return k.claim(ctx)
}

// stand looks at the Lease and takes it when it is free.
func (k *Keeper) stand(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease, err := k.Server.Lease(ctx)
	if err != nil {
		// No control plane runs here yet, or it is down.
		k.note(err)
		return
	}
	k.observe(lease)
	if k.initial && k.taken(lease) {
		k.drop(fmt.Sprintf("it was elected: %q", *lease.Spec.HolderIdentity))
	}
	if !k.free(lease) {
		k.note(nil)
		return
	}
	err = k.claim(ctx)
	if apierrors.IsConflict(err) {
		// Another host was faster, or the read was out of date.
		err = nil
	}
	if err == nil && k.leading {
		k.take()
		return
	}
	k.note(err)
}

// serves returns an error unless the API server of this host is ready, and answers at the
// port of the endpoint: at any other port no client finds it by the address.
func (k *Keeper) serves(ctx context.Context) error {
	err := k.Server.Ready(ctx)
	if err != nil || k.candidate.Port == 0 {
		return err
	}
	return k.Server.Serves(ctx, k.candidate.Port)
}

// claim writes this host into the Lease it has seen last.
func (k *Keeper) claim(ctx context.Context) error {
	sent := k.Now()
	if err := k.serves(ctx); err != nil {
		return err
	}
	lease := k.seen.DeepCopy()
	now := metav1.NowMicro()
	if !k.mine(lease) {
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime = &k.candidate.Identity, &now
		lease.Spec.LeaseTransitions = ptr.To(min(ptr.Deref(lease.Spec.LeaseTransitions, 0), math.MaxInt32-1) + 1)
		delete(lease.Annotations, givenBackAnnotation)
	}
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &now, ptr.To(int32(LeaseDuration/time.Second))
	k.wrote(now)
	stored, err := k.Server.UpdateLease(ctx, lease)
	if err != nil {
		return err
	}
	k.observe(stored)
	if !k.leading {
		k.leading, k.rounds = true, 0
		k.observer.takeovers.Add(1)
		k.Log.Info("elected to hold the virtual IP", "address", k.candidate.Address, "term", ptr.Deref(stored.Spec.LeaseTransitions, 0))
	}
	k.renewed, k.initial = sent, false
	return nil
}

// release lets another host take the Lease at once. It must come after the
// address is gone, and is but a courtesy: the Lease runs out by itself.
func (k *Keeper) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	lease := k.seen.DeepCopy()
	lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = nil, nil, ptr.To(givenBack)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, givenBackAnnotation, k.Server.Seal(endOfTerm(lease)))
	if stored, err := k.Server.UpdateLease(ctx, lease); err == nil {
		k.observe(stored)
	}
}

// observe notes since when the Lease is unchanged, by the clock of this host:
// clocks of other hosts and the times in the Lease do not matter.
func (k *Keeper) observe(lease *coordinationv1.Lease) {
	if k.seen == nil {
		// An agent that restarted keeps the address that it finds.
		if held, err := k.Holder.Held(k.candidate.Address); held && err == nil && lease.Spec.RenewTime != nil {
			k.wrote(*lease.Spec.RenewTime)
		}
	}
	if k.seen == nil || k.seen.ResourceVersion != lease.ResourceVersion || k.seen.UID != lease.UID {
		k.since = k.Now()
	}
	if k.seen == nil || k.seen.UID != lease.UID {
		k.known, k.term = k.Now(), 0
	}
	k.seen, k.term = lease, max(k.term, ptr.Deref(lease.Spec.LeaseTransitions, 0))
}

// renewal is one that this host sent: its time in the Lease, and when that was by the clock of this host.
type renewal struct {
	micro int64
	at    time.Time
}

// wrote remembers a renewal for as long as nobody else can have acquired the Lease since.
func (k *Keeper) wrote(renewTime metav1.MicroTime) {
	now := k.Now()
	k.written = slices.DeleteFunc(k.written, func(r renewal) bool { return now.Sub(r.at) >= LeaseDuration+renewInterval })
	k.written = append(k.written, renewal{renewTime.UnixMicro(), now})
}

// mine reports whether this host wrote the Lease. Its name alone does not say so: another machine may have been
// enrolled under it, and somebody may edit the Lease.
func (k *Keeper) mine(lease *coordinationv1.Lease) bool {
	if lease.Spec.RenewTime == nil || ptr.Deref(lease.Spec.HolderIdentity, "") != k.candidate.Identity {
		return false
	}
	return slices.ContainsFunc(k.written, func(r renewal) bool {
		return r.micro == lease.Spec.RenewTime.UnixMicro() && k.Now().Sub(r.at) < LeaseDuration+renewInterval
	})
}

// taken reports whether another host holds the Lease.
func (k *Keeper) taken(lease *coordinationv1.Lease) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") != "" && !k.mine(lease) && !k.expired(lease)
}

// free reports whether this host may write itself into the Lease.
func (k *Keeper) free(lease *coordinationv1.Lease) bool {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	switch {
	case k.Now().Before(k.yields):
		// Its writes may arrive although it does not hear so, and would keep the
		// others from taking a Lease that does this host no good.
		return false
	case k.mine(lease):
		return true
	case k.candidate.Leaving && holder != k.candidate.Identity:
		return false
	case holder == "" && (k.initial || k.gaveBack(lease)):
		return true
	}
	// One that somebody deleted, emptied or wrote this host's name into does not say that the
	// address is free.
	return k.expired(lease)
}

const (
	// givenBack is the leaseDurationSeconds of a Lease that its host gave back, as client-go has it.
	givenBack int32 = 1
	// givenBackAnnotation has the seal of the host that gave the Lease back.
	givenBackAnnotation = "infrastructure.slipway.dev/given-back"
)

// endOfTerm is what a host seals when it gives the Lease back: a term has one end.
func endOfTerm(lease *coordinationv1.Lease) string {
	return fmt.Sprintf("%s\n%d\n%d", lease.UID, ptr.Deref(lease.Spec.LeaseTransitions, 0), ptr.Deref(lease.Spec.AcquireTime, metav1.MicroTime{}).UnixMicro())
}

// gaveBack reports whether the elected host removed the address before it emptied the Lease. Who empties one by
// hand cannot seal it, and has no seal but those of earlier terms, which this host has seen end unless it has just begun
// to look.
func (k *Keeper) gaveBack(lease *coordinationv1.Lease) bool {
	if lease.Spec.AcquireTime == nil || lease.Spec.RenewTime != nil || ptr.Deref(lease.Spec.LeaseDurationSeconds, 0) != givenBack ||
		ptr.Deref(lease.Spec.LeaseTransitions, 0) < k.term || k.Now().Sub(k.known) < LeaseDuration {
		return false
	}
	seal := k.Server.Seal(endOfTerm(lease))
	return seal != "" && hmac.Equal([]byte(seal), []byte(lease.Annotations[givenBackAnnotation]))
}

func (k *Keeper) expired(lease *coordinationv1.Lease) bool {
	declared := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return k.Now().Sub(k.since) >= max(LeaseDuration, min(declared, maxLeaseDuration))
}
