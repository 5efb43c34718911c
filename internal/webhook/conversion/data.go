package conversion

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	utilconversion "sigs.k8s.io/cluster-api/util/conversion"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// keep stores in an annotation of dst the part of its v1beta2 form that is lost in
// v1beta1. It is only a part, since a pool as a whole would not fit in annotations.
func keep(dst, part metav1.Object) error {
	// dst shares its annotations with the object it was made from.
	dst.SetAnnotations(maps.Clone(dst.GetAnnotations()))
	if err := utilconversion.MarshalData(part, dst); err != nil {
		return fmt.Errorf("keep in annotation %s what v1beta1 cannot express: %w", utilconversion.DataAnnotation, err)
	}
	return nil
}

// restore reads into kept what keep stored in src, and removes the annotation. An
// object that has none leaves kept empty.
func restore(src, kept metav1.Object) error {
	if _, err := utilconversion.UnmarshalData(src, kept); err != nil {
		return fmt.Errorf("read annotation %s (remove it if it was edited by hand): %w", utilconversion.DataAnnotation, err)
	}
	return nil
}

// initialization says in v1beta2 what status.ready says in v1beta1, of which false
// is the zero value.
func initialization(ready bool) infrav1.InitializationStatus {
	if !ready {
		return infrav1.InitializationStatus{}
	}
	return infrav1.InitializationStatus{Provisioned: ptr.To(true)}
}
