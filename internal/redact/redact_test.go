package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

const secretWord = "s3cr3tValue"

func TestText(t *testing.T) {
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"
	pem := "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"
	long := base64.StdEncoding.EncodeToString([]byte("apiVersion: v1, kind: Config and sixty more characters 0123456789"))
	for text, want := range map[string]string{
		"GET /x Authorization: Bearer " + secretWord + " 200":                    "GET /x Authorization: REDACTED",
		"Authorization: Digest a=" + secretWord + ", b=" + secretWord + "\nnext": "Authorization: REDACTED\nnext",
		"curl -H 'Authorization: AWS4 a, S=" + secretWord + "' x":                "curl -H 'Authorization: REDACTED' x",
		`{"authorization":["Bearer ` + secretWord + ` a"],"b":1}`:                `{"authorization":["REDACTED"],"b":1}`,
		`"{\"authorization\": \"Basic ` + secretWord + `\"}"`:                    `"{\"authorization\": \"REDACTED\"}"`,
		`{"authorization":{"mode":"Webhook"}}`:                                   `{"authorization":{"mode":"Webhook"}}`,
		"passphrase: " + secretWord + " privateKey=" + secretWord:                "passphrase: REDACTED privateKey=REDACTED",
		"token: Bearer " + secretWord:                                            "token: REDACTED",
		`{"authorization":"Basic ` + secretWord + `","a":1}`:                     `{"authorization":"REDACTED","a":1}`,
		"with bearer " + secretWord + ".":                                        "with bearer REDACTED",
		"got " + jwt + " from":                                                   "got REDACTED from",
		"joined by abcdef.0123456789abcdef":                                      "joined by REDACTED",
		"a " + pem + " b":                                                        "a REDACTED b",
		`{"key":"` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`:                  `{"key":"REDACTED"}`,
		"cut off: -----BEGIN PRIVATE KEY-----\nMHcCAQEE":                         "cut off: REDACTED",
		"password=" + secretWord + "&user=a":                                     "password=REDACTED&user=a",
		`msg="login" PASSWD: "` + secretWord + `"`:                               `msg="login" PASSWD: "REDACTED"`,
		"https://ann:" + secretWord + "@example.com/x":                           "https://REDACTED@example.com/x",
		"https://example.com/x?sig=" + secretWord + " failed":                    "https://example.com/x?REDACTED failed",
		"    client-key-data: " + secretWord + "\n    next: a":                   "    client-key-data: REDACTED\n    next: a",
		"data " + long: "data REDACTED",
		`password="a, b \"` + secretWord + `" user=a`:           `password="REDACTED" user=a`,
		`{"m":"{\"token\": \"` + secretWord + `\"}"}`:           `{"m":"{\"token\": \"REDACTED\"}"}`,
		`passwd: 'a ` + secretWord + `'`:                        `passwd: 'REDACTED'`,
		"users: [{name: a, user: {token: " + secretWord + "}}]": "users: [{name: a, user: {token: REDACTED}}]",
		`{"secret":{"secretName":"a"},"token":["b"]}`:           `{"secret":{"secretName":"a"},"token":["b"]}`,
		// What helps stays.
		"image a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef": "image a@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		"https://10.0.0.1:6443/api/v1 slipway://prod/h1/c1 at 2026-05-04T12:00:00Z":       "https://10.0.0.1:6443/api/v1 slipway://prod/h1/c1 at 2026-05-04T12:00:00Z",
		"token:\n  expirationSeconds: 3":                                                  "token:\n  expirationSeconds: 3",
		"secretName: a-kubeconfig, dataSecretName: a-bootstrap":                           "secretName: a-kubeconfig, dataSecretName: a-bootstrap",
	} {
		if got := (&Redactor{}).Text(text); got != want {
			t.Errorf("%q\nbecame %q\nwant   %q", text, got, want)
		}
	}
}

func TestLearn(t *testing.T) {
	r := &Redactor{}
	r.Learn("password", []byte("correct horse battery\n"))
	r.Learn("longer", []byte("correct horse battery staple"))
	r.Learn("kubeconfig", []byte("users: [{name: a, user: {token: AbCdEfGhIjKlMnOpQrStUv12}}]"))
	r.Learn("odd", []byte(`a "b" & <c> 'd' \e`))
	r.Learn("namespace", []byte("production-east"))
	r.Learn("flag", []byte("true"))
	for text, want := range map[string]string{
		"say correct horse battery!":        "say REDACTED!",
		"say correct horse battery staple!": "say REDACTED!",
		"in base64 " + base64.StdEncoding.EncodeToString([]byte("correct horse battery\n")): "in base64 REDACTED",
		"used AbCdEfGhIjKlMnOpQrStUv12 there":                                               "used REDACTED there",
		`{"m":"a \"b\" \u0026 \u003cc\u003e 'd' \\e"}`:                                      `{"m":"REDACTED"}`,
		`msg="a \"b\" & <c> 'd' \\e"`:                                                       `msg="REDACTED"`,
		"?p=a+%22b%22+%26+%3Cc%3E+%27d%27+%5Ce":                                             "?p=REDACTED",
		"/a%20%22b%22%20&%20%3Cc%3E%20%27d%27%20%5Ce":                                       "/REDACTED",
		"namespace production-east is true":                                                 "namespace production-east is true",
		"users of name a, whoever they are, remain":                                         "users of name a, whoever they are, remain",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// Fields that can carry credentials lose all that is in them; the others stay.
func TestObject(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"a Secret": {
			`{"apiVersion":"v1","kind":"Secret","type":"Opaque","metadata":{"name":"a","managedFields":[1],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"s3cr3tValue"}},"data":{"k":"s3cr3tValue"},"stringData":{"l":"s3cr3tValue"},"more":"s3cr3tValue"}`,
			`{"apiVersion":"v1","keys":{"k":"REDACTED","l":"REDACTED"},"kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"REDACTED"},"name":"a"},"type":"Opaque"}`,
		},
		"annotations": {
			`{"kind":"Host","metadata":{"annotations":{"example.com/key":"s3cr3tValue","plain":"s3cr3tValue","slipway.dev.example.com/a":"s3cr3tValue","infrastructure.slipway.dev/replaces":"m","cluster.x-k8s.io/paused":""}},"spec":{"template":{"metadata":{"annotations":{"example.com/key":"s3cr3tValue"},"labels":{"a":"b"}}}}}`,
			`{"kind":"Host","metadata":{"annotations":{"cluster.x-k8s.io/paused":"","example.com/key":"REDACTED","infrastructure.slipway.dev/replaces":"m","plain":"REDACTED","slipway.dev.example.com/a":"REDACTED"}},"spec":{"template":{"metadata":{"annotations":{"example.com/key":"REDACTED"},"labels":{"a":"b"}}}}}`,
		},
		"a KubeadmConfig": {
			`{"spec":{"files":[{"path":"/etc/x","content":"s3cr3tValue"}],"preKubeadmCommands":["echo s3cr3tValue"],"postKubeadmCommands":["s3cr3tValue"],"users":[{"name":"a","passwd":"s3cr3tValue","sshAuthorizedKeys":["s3cr3tValue"]}],"joinConfiguration":{"discovery":{"bootstrapToken":{"token":"s3cr3tValue","apiServerEndpoint":"10.0.0.1:6443"}}},"clusterConfiguration":{"certificateKey":"s3cr3tValue"}}}`,
			`{"spec":{"clusterConfiguration":{"certificateKey":"REDACTED"},"files":[{"content":"REDACTED","path":"/etc/x"}],"joinConfiguration":{"discovery":{"bootstrapToken":{"apiServerEndpoint":"10.0.0.1:6443","token":"REDACTED"}}},"postKubeadmCommands":["REDACTED"],"preKubeadmCommands":["REDACTED"],"users":[{"name":"a","passwd":"REDACTED","sshAuthorizedKeys":["REDACTED"]}]}}`,
		},
		"what clients of others are configured with": {
			`{"spec":{"ignition":{"containerLinuxConfig":{"additionalConfig":"s3cr3tValue"}},"valuesTemplate":"a: s3cr3tValue","values":"a: s3cr3tValue","settings":{"a":"s3cr3tValue"},"selector":{"matchExpressions":[{"key":"a","values":["b"]}]}}}`,
			`{"spec":{"ignition":{"containerLinuxConfig":{"additionalConfig":"REDACTED"}},"selector":{"matchExpressions":[{"key":"a","values":["b"]}]},"settings":{"a":"REDACTED"},"values":"REDACTED","valuesTemplate":"REDACTED"}}`,
		},
		"a ClusterClass": {
			`{"spec":{"patches":[{"definitions":[{"jsonPatches":[{"op":"add","path":"/spec/template","valueFrom":{"template":"s3cr3tValue","variable":"v"}}]}],"external":{"settings":{"a":"s3cr3tValue"}}}],"variables":[{"name":"v","schema":{"openAPIV3Schema":{"type":"object","default":{"a":"s3cr3tValue"},"example":"s3cr3tValue","properties":{"default":{"type":"string"}}}}}],"workers":{"template":{"metadata":{}}}}}`,
			`{"spec":{"patches":[{"definitions":[{"jsonPatches":[{"op":"add","path":"/spec/template","valueFrom":{"template":"REDACTED","variable":"v"}}]}],"external":{"settings":{"a":"REDACTED"}}}],"variables":[{"name":"v","schema":{"openAPIV3Schema":{"default":{"a":"REDACTED"},"example":"REDACTED","properties":{"default":{"type":"REDACTED"}},"type":"object"}}}],"workers":{"template":{"metadata":{}}}}}`,
		},
		"annotations with objects in them": {
			`{"metadata":{"name":"a","annotations":{"cluster.x-k8s.io/conversion-data":"s3cr3tValue","controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration":"s3cr3tValue"}}}`,
			`{"metadata":{"annotations":{"cluster.x-k8s.io/conversion-data":"REDACTED","controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration":"REDACTED"},"name":"a"}}`,
		},
		"fields that end with what they are": {
			`{"spec":{"adminPassword":"s3cr3tValue","root_passwd":"s3cr3tValue","passphrase":"s3cr3tValue","tlsBootstrapToken":"s3cr3tValue","client-secret":"s3cr3tValue","sshPrivateKey":"s3cr3tValue","api-key":"s3cr3tValue","joinTokens":["t"],"refreshToken":["s3cr3tValue"],"tokenSecretName":"a","secretName":"b","dataSecretName":"c","tokenCount":3,"automountServiceAccountToken":false,"lockPassword":true,"emptyToken":"","secretRef":{"name":"d"}}}`,
			`{"spec":{"adminPassword":"REDACTED","api-key":"REDACTED","automountServiceAccountToken":false,"client-secret":"REDACTED","dataSecretName":"c","emptyToken":"","joinTokens":["t"],"lockPassword":true,"passphrase":"REDACTED","refreshToken":["REDACTED"],"root_passwd":"REDACTED","secretName":"b","secretRef":{"name":"d"},"sshPrivateKey":"REDACTED","tlsBootstrapToken":"REDACTED","tokenCount":3,"tokenSecretName":"a"}}`,
		},
		"a Cluster": {
			`{"spec":{"topology":{"version":"v1","variables":[{"name":"a","value":{"deep":["s3cr3tValue",4711,true,null]}}]}}}`,
			`{"spec":{"topology":{"variables":[{"name":"a","value":{"deep":["REDACTED","REDACTED",true,null]}}],"version":"v1"}}}`,
		},
		"a policy": {
			`{"spec":{"hooks":[{"steps":[{"name":"w","webhook":{"url":"https://hooks.example:8443/T/s3cr3tValue?k=s3cr3tValue","secretName":"s"}},{"job":{"spec":{"template":{"spec":{"containers":[{"image":"i","command":["s3cr3tValue"],"args":["s3cr3tValue"],"env":[{"name":"P","value":"s3cr3tValue"},{"name":"Q","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}]}}}}},{"approval":{"message":"apiVersion: v1\ncurrent-context: a s3cr3tValue"}}]}]}}`,
			`{"spec":{"hooks":[{"steps":[{"name":"w","webhook":{"secretName":"s","url":"https://hooks.example:8443/REDACTED"}},{"job":{"spec":{"template":{"spec":{"containers":[{"args":["REDACTED"],"command":["REDACTED"],"env":[{"name":"P","value":"REDACTED"},{"name":"Q","valueFrom":{"secretKeyRef":{"key":"k","name":"s"}}}],"image":"i"}]}}}}},{"approval":{"message":"REDACTED"}}]}]}}`,
		},
	} {
		var o map[string]any
		if err := json.Unmarshal([]byte(tc.object), &o); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal((&Redactor{}).Object(o))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tc.want {
			t.Errorf("%s became\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}
