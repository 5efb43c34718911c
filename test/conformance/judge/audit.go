package judge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// Right is a verb on a resource, which may be a subresource such as hosts/status.
type Right struct{ Group, Resource, Verb string }

// String is how RBAC's own messages write it.
func (r Right) String() string { return fmt.Sprintf("%s %s.%s", r.Verb, r.Resource, r.Group) }

// audit makes an API server write down who asked for what.
func audit(server *envtest.Environment, dir string) error {
	policy := auditv1.Policy{
		TypeMeta:   metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages: []auditv1.Stage{auditv1.StageRequestReceived, auditv1.StagePanic},
		Rules: []auditv1.PolicyRule{
			{Level: auditv1.LevelMetadata, UserGroups: []string{"system:serviceaccounts"}},
			{Level: auditv1.LevelNone},
		},
	}
	data, err := yaml.Marshal(policy)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "audit-policy.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	server.ControlPlane.GetAPIServer().Configure().
		Append("audit-policy-file", file).
		Append("audit-log-path", auditLog(dir))
	return nil
}

func auditLog(dir string) string { return filepath.Join(dir, "audit.log") }

// Used returns the rights that a subject has used and been granted, once for each.
func (p *Plane) Used(s Subject) (map[Right]bool, error) {
	used, err := p.UsedIn(s)
	return merge(used), err
}

// UsedIn is Used by namespace; empty for all namespaces, and for what is in none.
func (p *Plane) UsedIn(s Subject) (map[string]map[Right]bool, error) {
	file, err := os.Open(auditLog(p.options.Dir))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	user, used := account(s), map[string]map[Right]bool{}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			// The last line may be half-written.
			return used, nil
		}
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if event.User.Username != user || event.ObjectRef == nil || event.Annotations["authorization.k8s.io/decision"] != "allow" {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		in := event.ObjectRef.Namespace
		if used[in] == nil {
			used[in] = map[Right]bool{}
		}
		used[in][Right{event.ObjectRef.APIGroup, resource, event.Verb}] = true
	}
}

// Granted returns the rights of a subject: those of the ClusterRoles and Roles that
// are bound to its ServiceAccount by name.
func (p *Plane) Granted(ctx context.Context, s Subject) (map[Right]bool, error) {
	granted, err := p.GrantedIn(ctx, s)
	return merge(granted), err
}

// GrantedIn is Granted by namespace; empty for all namespaces.
func (p *Plane) GrantedIn(ctx context.Context, s Subject) (map[string]map[Right]bool, error) {
	bindings, scoped := &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}
	if err := errors.Join(p.Client.List(ctx, bindings), p.Client.List(ctx, scoped)); err != nil {
		return nil, err
	}
	rules := map[string][]rbacv1.PolicyRule{}
	add := func(in string, subjects []rbacv1.Subject, ref rbacv1.RoleRef) error {
		if !bound(s, subjects) {
			return nil
		}
		found, err := p.rules(ctx, in, ref)
		rules[in] = append(rules[in], found...)
		return err
	}
	for _, binding := range bindings.Items {
		if err := add("", binding.Subjects, binding.RoleRef); err != nil {
			return nil, err
		}
	}
	for _, binding := range scoped.Items {
		if err := add(binding.Namespace, binding.Subjects, binding.RoleRef); err != nil {
			return nil, err
		}
	}
	granted := map[string]map[Right]bool{}
	for in := range rules {
		granted[in] = flatten(rules[in])
	}
	return granted, nil
}

// rules are those that a binding refers to.
func (p *Plane) rules(ctx context.Context, namespace string, ref rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "Role" {
		role := &rbacv1.Role{}
		err := p.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
		return role.Rules, err
	}
	role := &rbacv1.ClusterRole{}
	err := p.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
	return role.Rules, err
}

func merge(byNamespace map[string]map[Right]bool) map[Right]bool {
	all := map[Right]bool{}
	for _, rights := range byNamespace {
		maps.Copy(all, rights)
	}
	return all
}

// UnusedIn says of granted rights, by namespace, which were not used where they are granted.
// One that is granted in all namespaces was used only if it was where no other grant gives it.
func UnusedIn(granted, used map[string]map[Right]bool) []string {
	var unused []string
	for in, rights := range granted {
		needed, where := used[in], "namespace "+in
		if in == "" {
			needed, where = map[Right]bool{}, "all namespaces"
			for used, rights := range used {
				for right := range rights {
					if used == "" || !granted[used][right] {
						needed[right] = true
					}
				}
			}
		}
		for _, right := range Unused(rights, needed) {
			unused = append(unused, fmt.Sprintf("%s in %s", right, where))
		}
	}
	slices.Sort(unused)
	return unused
}

// Unused returns the granted rights that were not used. Whether a cache lists before
// it watches is up to client-go, so who watches may also list.
func Unused(granted, used map[Right]bool) []Right {
	var unused []Right
	for right := range granted {
		watch := Right{right.Group, right.Resource, "watch"}
		if !used[right] && (right.Verb != "list" || !used[watch]) {
			unused = append(unused, right)
		}
	}
	return unused
}

// PassedOn returns the rights in the Roles outside of a subject's namespace. Who
// writes a Role must have what it grants.
func (p *Plane) PassedOn(ctx context.Context, s Subject) (map[Right]bool, error) {
	roles := &rbacv1.RoleList{}
	if err := p.Client.List(ctx, roles); err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	for _, role := range roles.Items {
		if role.Namespace != s.Namespace && !strings.HasPrefix(role.Namespace, "kube-") {
			rules = append(rules, role.Rules...)
		}
	}
	return flatten(rules), nil
}

func flatten(rules []rbacv1.PolicyRule) map[Right]bool {
	rights := map[Right]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights[Right{group, resource, verb}] = true
				}
			}
		}
	}
	return rights
}

func bound(s Subject, subjects []rbacv1.Subject) bool {
	return slices.ContainsFunc(subjects, func(subject rbacv1.Subject) bool {
		return subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == s.Namespace && subject.Name == s.ServiceAccount
	})
}

func account(s Subject) string {
	return strings.Join([]string{"system:serviceaccount", s.Namespace, s.ServiceAccount}, ":")
}
