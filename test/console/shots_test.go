package console

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// shots is what `make ui-shots` gives.
var shots = flag.String("shots", "", "folder that takes a picture of each page; none is taken when empty")

// shot takes a picture of a page, if it is asked for.
func (p *tab) shot(name string) {
	p.t.Helper()
	if *shots == "" {
		return
	}
	picture, err := within(p, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatalf("take a picture: %v", err)
	}
	if picture, err = small(picture); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// small has a picture keep the colors that it has most of, which is all of them but shades
// of the edges of letters: it takes a third of the space.
func small(picture []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	area, count := full.Bounds(), map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(full.At(x, y)).(color.RGBA) }
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	palette := make(color.Palette, 0, maxColors)
	for _, c := range colors[:min(len(colors), maxColors)] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for _, c := range colors {
		nearest[c] = uint8(palette.Index(c))
	}
	reduced := image.NewPaletted(area, palette)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			reduced.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, reduced)
	return out.Bytes(), err
}

// maxColors is how many of them a picture keeps.
const maxColors = 64

// prefers is what the system of the user has set.
func (p *tab) prefers(scheme string) {
	p.t.Helper()
	p.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return chromedp.Void{}, err
	})
}
