package step

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const goodJobSpec = `{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"b"}]}}}`

func TestParseJobSpec(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"good":              {goodJobSpec, ""},
		"empty":             {"", "job.spec: Required value"},
		"no object":         {`[]`, "job.spec: Invalid value: is no spec of a batch/v1 Job"},
		"unknown field":     {`{"backofLimit":1,` + goodJobSpec[1:], `unknown field "backofLimit"`},
		"unknown deep":      {strings.Replace(goodJobSpec, `"image"`, `"imagine":"x","image"`, 1), `unknown field "template.spec.containers[0].imagine"`},
		"duplicate field":   {`{"backoffLimit":1,"backoffLimit":2,` + goodJobSpec[1:], `duplicate field "backoffLimit"`},
		"wrong type":        {`{"backoffLimit":"1",` + goodJobSpec[1:], "job.spec: Invalid value"},
		"ttl":               {`{"ttlSecondsAfterFinished":1,` + goodJobSpec[1:], "job.spec.ttlSecondsAfterFinished: Forbidden"},
		"selector":          {`{"selector":{},` + goodJobSpec[1:], "job.spec.selector: Forbidden"},
		"no restartPolicy":  {strings.Replace(goodJobSpec, `"restartPolicy":"Never",`, "", 1), "job.spec.template.spec.restartPolicy: Required value: Never or OnFailure"},
		"bad restartPolicy": {strings.Replace(goodJobSpec, "Never", "Always", 1), `job.spec.template.spec.restartPolicy: Unsupported value: "Always"`},
		"no containers":     {`{"template":{"spec":{"restartPolicy":"Never"}}}`, "job.spec.template.spec.containers: Required value"},
		"no image":          {strings.Replace(goodJobSpec, `,"image":"b"`, "", 1), "job.spec.template.spec.containers[0].image: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := parseJobSpec([]byte(c.spec), field.NewPath("job", "spec"))
			if c.want == "" {
				if errs != nil {
					t.Error(errs)
				}
				return
			}
			if err := errs.ToAggregate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// FuzzParseJobSpec holds that no spec ends the process.
func FuzzParseJobSpec(f *testing.F) {
	for _, seed := range []string{goodJobSpec, "{}", "[]", `{"template":null}`, `{"selector":{},"selector":{}}`, `{"template":{"spec":{"containers":[null]}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, errs := parseJobSpec(data, field.NewPath("spec"))
		if len(errs) == 0 && len(spec.Template.Spec.Containers) == 0 {
			t.Error("accepted a Job without containers")
		}
	})
}
