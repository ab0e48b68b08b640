"""Instructions of random programs that only compute: an opcode, its result and its operands.

Letters name registers: r 32 bits, d 64 bits, h 16 bits, f float, g double, p predicate; the result
comes first. `i` is a small number.
"""

from __future__ import annotations

from random import Random

PREFIX = {"r": "%r", "d": "%rd", "h": "%h", "f": "%f", "g": "%fd", "p": "%p"}

_TABLE = """
add.s32 rrr     add.u32 rrr     sub.s32 rrr     sub.u32 rrr     add.sat.s32 rrr   neg.s32 rr
mul.lo.s32 rrr  mul.lo.u32 rrr  mul.hi.s32 rrr  mul.hi.u32 rrr  mad.lo.s32 rrrr   mad.hi.u32 rrrr
min.s32 rrr     min.u32 rrr     max.s32 rrr     max.u32 rrr     sad.u32 rrrr      abs.s32 rr
div.u32 rrr     div.s32 rrr     rem.u32 rrr     rem.s32 rrr     mul24.lo.u32 rrr  not.b32 rr
and.b32 rrr     or.b32 rrr      xor.b32 rrr     cnot.b32 rr     popc.b32 rr       clz.b32 rr
shl.b32 rrr     shr.u32 rrr     shr.s32 rrr     brev.b32 rr     bfind.u32 rr      prmt.b32 rrrr
bfe.u32 rrrr    bfe.s32 rrrr    bfi.b32 rrrrr   lop3.b32 rrrri  shf.l.wrap.b32 rrrr
shf.r.clamp.b32 rrrr            mul.wide.s32 drr mul.wide.u32 drr mad.wide.u32 drrd
add.s64 ddd     sub.u64 ddd     mul.lo.u64 ddd  mul.hi.u64 ddd  min.s64 ddd       max.u64 ddd
and.b64 ddd     or.b64 ddd      xor.b64 ddd     not.b64 dd      shl.b64 ddr       shr.u64 ddr
shr.s64 ddr     popc.b64 rd     clz.b64 rd      brev.b64 dd     div.u64 ddd       rem.s64 ddd
add.s16 hhh     sub.u16 hhh     mul.lo.u16 hhh  and.b16 hhh     xor.b16 hhh       min.s16 hhh
max.u16 hhh     shl.b16 hhr     shr.u16 hhr     mul.wide.u16 rhh mov.b16 hh
mov.b32 rr      mov.b64 dd      mov.b32 fr      mov.b32 rf      mov.f32 ff
cvt.u32.u16 rh  cvt.s32.s16 rh  cvt.u16.u32 hr  cvt.u64.u32 dr  cvt.s64.s32 dr    cvt.u32.u64 rd
cvt.rn.f32.s32 fr               cvt.rn.f32.u32 fr               cvt.rz.f32.u64 fd
cvt.rzi.s32.f32 rf              cvt.rni.u32.f32 rf              cvt.rmi.s64.f32 df
cvt.rn.f16.f32 hf               cvt.f32.f16 fh                  cvt.rn.bf16.f32 hf
cvt.f32.bf16 fh                 cvt.rn.f16x2.f32 rff            cvt.rn.bf16x2.f32 rff
cvt.f64.f32 gf  cvt.rn.f32.f64 fg               cvt.rn.satfinite.e4m3x2.f32 hff
cvt.rn.f16x2.e4m3x2 rh
add.f32 fff     sub.f32 fff     mul.f32 fff     add.rz.f32 fff  add.ftz.f32 fff   mul.rp.f32 fff
min.f32 fff     max.f32 fff     fma.rn.f32 ffff fma.rn.ftz.f32 ffff               neg.f32 ff
abs.f32 ff      copysign.f32 fff                div.rn.f32 fff  sqrt.rn.f32 ff    rcp.rn.f32 ff
add.sat.f32 fff add.f64 ggg     mul.f64 ggg     fma.rn.f64 gggg neg.f64 gg
add.f16x2 rrr   mul.f16x2 rrr   fma.rn.f16x2 rrrr               min.f16x2 rrr     neg.f16x2 rr
fma.rn.bf16x2 rrrr              max.bf16x2 rrr  abs.bf16x2 rr   fma.rn.relu.f16x2 rrrr
setp.lt.s32 prr setp.ge.u32 prr setp.eq.b32 prr setp.ne.u64 pdd setp.gt.s64 pdd
setp.lt.f32 pff setp.geu.f32 pff                setp.nan.f32 pff                  setp.le.u16 phh
setp.lt.and.u32 prrp            setp.ne.xor.s32 prrp            setp.gt.or.f32 pffp
and.pred ppp    or.pred ppp     xor.pred ppp    not.pred pp
selp.b32 rrrp   selp.f32 fffp   selp.b64 dddp   selp.b16 hhhp   set.lt.u32.u32 rrr
set.gt.u32.f32 rff              slct.s32.s32 rrrr
"""
_WORDS = _TABLE.split()
COMPUTING: tuple[tuple[str, str], ...] = tuple(zip(_WORDS[::2], _WORDS[1::2], strict=True))

SPECIALS = ("%laneid", "%warpid", "%ctaid.x", "%ntid.x", "%lanemask_lt", "%clock", "%nctaid.x")
LITERALS = {
    "r": ("0", "1", "-1", "31", "32", "0x7fffffff", "0x80000000", "255", "7"),
    "d": ("0", "1", "-1", "63", "0x8000000000000000"),
    "f": ("0f00000000", "0f3F800000", "0fBF000000", "0f7F800000", "0f7FC00000", "0f00000001"),
}
WITHOUT_LITERALS = ("mov", "cvt", "selp", "slct", "lop3")


def literal(rng: Random, letter: str) -> str:
    return rng.choice(LITERALS[letter])
