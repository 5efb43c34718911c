package live

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// attemptTimeout bounds one attempt, so that an address which is nowhere does not
// hide that it is back.
const attemptTimeout = time.Second

// AskAPIServer asks an API server whether it is ready. Every attempt is a connection
// of its own, and runs on the calling thread.
func AskAPIServer(host string) func() error {
	return func() error {
		raw, err := net.DialTimeout("tcp", net.JoinHostPort(host, "6443"), attemptTimeout)
		if err != nil {
			return err
		}
		// Only liveness is of interest here, not who answers.
		return get(tls.Client(raw, &tls.Config{InsecureSkipVerify: true}), "/readyz") //nolint:gosec // see above
	}
}

func get(conn net.Conn, path string) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(attemptTimeout)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: e2e\r\nConnection: close\r\n\r\n", path); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}

// Workload is two servers that must not share a node, behind a Service.
const Workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - labelSelector: {matchLabels: {app: echo}}
              topologyKey: kubernetes.io/hostname
      containers:
        - name: echo
          image: slipway.dev/echo:v1
          imagePullPolicy: Never
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
          # until no node sends anything here
          lifecycle: {preStop: {sleep: {seconds: 5}}}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec:
  selector: {app: echo}
  ports: [{port: 80, targetPort: 8080}]
`

// Budget keeps one of the two servers of Workload.
const Budget = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: echo}
spec: {minAvailable: 1, selector: {matchLabels: {app: echo}}}
`

// nodePort is the port of the Service NodePort on every node.
const nodePort = "30080"

// NodePort is Workload's Service at a port of every node.
const NodePort = `
apiVersion: v1
kind: Service
metadata: {name: door}
spec:
  type: NodePort
  selector: {app: echo}
  ports: [{port: 80, targetPort: 8080, nodePort: ` + nodePort + `}]
`

// AskNodePort asks one node after the other for NodePort, from the one that answered last on,
// as a load balancer before them does.
func AskNodePort(addresses []string) func() error {
	last := 0
	return func() error {
		var errs []error
		for i := range addresses {
			at := (last + i) % len(addresses)
			conn, err := net.DialTimeout("tcp", net.JoinHostPort(addresses[at], nodePort), attemptTimeout)
			if err == nil {
				err = get(conn, "/")
			}
			if err == nil {
				last = at
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}
