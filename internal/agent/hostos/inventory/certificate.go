package inventory

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// kubeletCertificate is what a kubelet has as a client of its API server.
const kubeletCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"

// overdueShare is the last part of a certificate's life. A kubelet requests another one when a tenth to three tenths
// are left; one that is refused tries on.
const overdueShare = 20

// KubeletCertificateExpires returns when the certificate of the kubelet ends; nil while the kubelet renews it in
// time, and where there is none.
func KubeletCertificateExpires(root hostfs.Root, now time.Time) *metav1.Time {
	data, _ := root.ReadFile(kubeletCertificate)
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil || c.NotAfter.Sub(now) >= c.NotAfter.Sub(c.NotBefore)/overdueShare {
			return nil
		}
		expires := metav1.NewTime(c.NotAfter)
		return &expires
	}
	return nil
}
