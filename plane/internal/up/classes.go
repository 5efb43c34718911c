package up

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/plane/internal/planeclient"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// UnknownClassError says that no ClusterClass of that name is there.
type UnknownClassError struct {
	File, Cluster, Class string
	Known                []string
}

func (e *UnknownClassError) Error() string {
	return fmt.Sprintf("%s: Cluster %s names the class %q, which is neither in the file nor in the plane (in its namespace: %s); correct spec.topology.classRef.name or add the ClusterClass to the file",
		e.File, e.Cluster, e.Class, cmp.Or(strings.Join(e.Known, ", "), "none"))
}

// checkKnownClasses tells before anything is started what checkClasses would tell
// at the end. It can't when a plane that has been up before is down.
func (s *Session) checkKnownClasses(ctx context.Context) error {
	if s.Options.File == nil {
		return nil
	}
	classes, err := localClasses()
	if err != nil {
		return err
	}
	_, running, err := statedir.Running(s.Instance.Dir)
	if err != nil {
		return err
	}
	if running {
		c, err := planeclient.New(s.Instance)
		if err != nil {
			return nil //nolint:nilerr // it is just starting
		}
		there, err := listClasses(ctx, c)
		if err != nil {
			return nil //nolint:nilerr // it is just starting
		}
		classes = append(classes, there...)
	} else if _, err := os.Stat(s.Instance.Path("etcd")); err == nil {
		return nil
	}
	return checkClasses(s.Options.File, classes)
}

// localClasses are those that `slipway up` brings.
func localClasses() ([]client.ObjectKey, error) {
	objects, err := localObjects()
	if err != nil {
		return nil, err
	}
	var classes []client.ObjectKey
	for _, o := range objects {
		if o.GetKind() == "ClusterClass" {
			if o.GetNamespace() == "" {
				o.SetNamespace(Namespace)
			}
			classes = append(classes, client.ObjectKeyFromObject(&o))
		}
	}
	return classes, nil
}

func listClasses(ctx context.Context, c client.Reader) ([]client.ObjectKey, error) {
	var list clusterv1.ClusterClassList
	if err := c.List(ctx, &list); err != nil {
		return nil, err
	}
	classes := make([]client.ObjectKey, 0, len(list.Items))
	for i := range list.Items {
		classes = append(classes, client.ObjectKeyFromObject(&list.Items[i]))
	}
	return classes, nil
}

// checkClasses refuses a Cluster whose class is neither in its file nor among
// classes: the Cluster would wait for it without end.
func checkClasses(file *File, classes []client.ObjectKey) error {
	for _, c := range file.Clusters {
		namespace := c.ClassNamespace
		if namespace == "" {
			namespace = c.GetNamespace()
		}
		if c.Class == "" || file.HasClass(namespace, c.Class) || slices.Contains(classes, client.ObjectKey{Namespace: namespace, Name: c.Class}) {
			continue
		}
		var known []string
		for _, class := range classes {
			if class.Namespace == namespace && !slices.Contains(known, class.Name) {
				known = append(known, class.Name)
			}
		}
		return &UnknownClassError{file.Name, c.GetName(), c.Class, known}
	}
	return nil
}
