package support

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxLines is how many lines of the end of a container's log are asked for.
const maxLines = 50_000

// logs gathers those of the pods of providers.
func (c *collector) logs(ctx context.Context) error {
	if c.clients == nil {
		return nil
	}
	providers := &appsv1.DeploymentList{}
	if err := c.clients.List(ctx, providers, client.HasLabels{clusterv1.ProviderNameLabel}); meta.IsNoMatchError(err) {
		return nil // a plane, whose programs are no pods
	} else if err != nil {
		c.lacks("logs of the providers", err)
		return nil
	}
	for i := range providers.Items {
		d := &providers.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err != nil {
			c.lacks("logs of "+d.Name, err)
			continue
		}
		pods := &corev1.PodList{}
		if err := c.clients.List(ctx, pods, client.InNamespace(d.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			c.lacks("logs of "+d.Name, err)
			continue
		}
		for j := range pods.Items {
			if err := c.logsOf(ctx, &pods.Items[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) logsOf(ctx context.Context, pod *corev1.Pod) error {
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		name := fmt.Sprintf("logs/%s/%s/%s", pod.Namespace, pod.Name, container.Name)
		if err := c.log(ctx, pod, container.Name, name+".log", false); err != nil {
			return err
		}
		restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container.Name && s.RestartCount > 0 })
		if restarted {
			if err := c.log(ctx, pod, container.Name, name+".previous.log", true); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *collector) log(ctx context.Context, pod *corev1.Pod, container, name string, previous bool) error {
	options := &corev1.PodLogOptions{
		Container: container, Previous: previous, Timestamps: true, TailLines: ptr.To[int64](maxLines),
		SinceSeconds: ptr.To(int64(max(c.Since/time.Second, 1))),
	}
	return c.stream(name, func() (io.ReadCloser, error) {
		return c.clients.core.Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	})
}

// stream adds the end of what can be read.
func (c *collector) stream(name string, open func() (io.ReadCloser, error)) error {
	from, err := open()
	if err != nil {
		c.lacks(name, err)
		return nil
	}
	defer func() { _ = from.Close() }()
	text, cut, err := tail(from, maxLog)
	if err != nil {
		c.lacks(name, err)
	}
	if cut {
		c.lacks(name, fmt.Errorf("only the last %d MiB", maxLog>>20))
	}
	return c.put(name, string(text))
}

// tail reads to the end and returns the last lines that fit.
func tail(from io.Reader, limit int) (text []byte, cut bool, err error) {
	if file, ok := from.(io.Seeker); ok {
		if size, err := file.Seek(0, io.SeekEnd); err == nil {
			start := max(size-int64(limit)-1, 0)
			if _, err := file.Seek(start, io.SeekStart); err != nil {
				return nil, false, err
			}
		}
	}
	var kept []byte
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		kept = append(kept, buffer[:n]...)
		// Twice as much is kept, so that it is not moved for each read.
		if len(kept) > 2*limit {
			kept, cut = append([]byte{}, kept[len(kept)-limit-1:]...), true
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if len(kept) > limit {
				kept, cut = kept[len(kept)-limit:], true
			}
			if _, after, found := bytes.Cut(kept, []byte("\n")); cut && found {
				kept = after
			}
			return kept, cut, err
		}
	}
}
